/// Queries of metadata, answered as constants.
#include "base/python_error.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"
#include "torch/names.h"

namespace stator::shape {

namespace {

Ref<> as_object(Dim value) {
    return checked(PyLong_FromLongLong(value.value()));
}

bool size(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    if (call[1].is_absent()) return call.returns_constant(torch_room::size_object(self->sizes));
    auto where = call[1].integer();
    auto dimension = where ? wrap_dimension(*where, self->dimensions()) : std::nullopt;
    if (!dimension || self->sizes.empty()) return false;
    return call.returns_constant(as_object(self->sizes[*dimension]));
}

bool dimension_count(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    return call.returns_constant(as_object(Dim(static_cast<std::int64_t>(self->dimensions()))));
}

bool number_of_elements(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && call.returns_constant(as_object(element_count(self->sizes)));
}

bool storage_offset(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && call.returns_constant(as_object(self->storage_offset));
}

bool truth(Call& call, bool value) {
    return call.returns_constant(Ref<>::share(value ? Py_True : Py_False));
}

bool is_floating_point(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && truth(call, torch_room::is_floating(self->dtype));
}

bool is_complex(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && truth(call, torch_room::is_complex(self->dtype));
}

/// `is_contiguous(memory_format=)`.
bool is_contiguous_question(Call& call) {
    using torch_room::MemoryFormat;
    const TensorMeta* self = call[0].tensor();
    auto format = call[1].is_given() ? call[1].memory_format() : std::optional(MemoryFormat::Contiguous);
    if (self == nullptr || !format) return false;
    if (*format == MemoryFormat::Contiguous) return truth(call, is_contiguous(self->sizes, self->strides));
    if (*format != MemoryFormat::ChannelsLast && *format != MemoryFormat::ChannelsLast3d) return false;
    if (has_unbacked(self->sizes)) return false;
    std::size_t dimensions = *format == MemoryFormat::ChannelsLast ? 4 : 5;
    return truth(call, self->dimensions() == dimensions && is_channels_last(self->sizes, self->strides));
}

/// `stride(dim)`.
bool stride(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer();
    if (self == nullptr || self->sizes.empty() || !where || has_unbacked(self->sizes)) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    return dimension && call.returns_constant(as_object(self->strides[*dimension]));
}

}  // namespace

void add_query_rules(Registry& registry) {
    registry.add_neutral("Tensor.size", "self dim?", size);
    registry.add_neutral("Tensor.dim Tensor.ndimension", "self", dimension_count);
    registry.add_neutral("Tensor.numel Tensor.nelement torch.numel", "self", number_of_elements);
    registry.add_neutral("Tensor.storage_offset", "self", storage_offset);
    registry.add_neutral("Tensor.is_floating_point torch.is_floating_point", "self", is_floating_point);
    registry.add_neutral("Tensor.is_complex torch.is_complex", "self", is_complex);
    registry.add_neutral("Tensor.is_contiguous", "self * memory_format?", is_contiguous_question);
    registry.add_neutral("Tensor.stride", "self dim?", stride);
}

}  // namespace stator::shape
