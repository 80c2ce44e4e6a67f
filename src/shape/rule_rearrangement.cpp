/// Copies with elements in other places: repeat, flip, roll, triangles.
#include "shape/registry.h"
#include "shape/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

bool like_contiguous(Call& call, const TensorMeta& self, Dims sizes) {
    return call.returns(call.fresh(std::move(sizes), self.dtype, self.device), call.records({&self}));
}

bool repeat(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto times = call[1].integer_or_integers();
    if (self == nullptr || !times || times->size() < self->dimensions()) return false;
    Dims sizes = *times;
    std::size_t added = times->size() - self->dimensions();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] < 0) return false;
        if (i >= added) sizes[i] *= self->sizes[i - added];
    }
    return like_contiguous(call, *self, std::move(sizes));
}

bool triangle(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || self->dimensions() < 2 || !call[1].integer_or(0)) return false;
    return like_contiguous(call, *self, self->sizes);
}

bool flip(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto dimensions = call[1].integer_or_integers();
    if (self == nullptr || !dimensions) return false;
    std::vector<bool> seen(self->dimensions() + 1);
    for (Dim dimension : *dimensions) {
        auto wrapped = wrap_dimension(dimension, self->dimensions());
        if (!wrapped || seen[*wrapped]) return false;
        seen[*wrapped] = true;
    }
    Dims strides = preserved_strides(*self);
    return call.returns(call.fresh(self->sizes, std::move(strides), self->dtype, self->device), call.records({self}));
}

bool roll(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto shifts = call[1].integer_or_integers();
    if (self == nullptr || !shifts || shifts->empty()) return false;
    if (element_count(self->sizes) == 0 && !is_plainly_empty(*self)) return false;
    if (!call[2].is_given() || (call[2].integers() && call[2].integers()->empty())) {
        if (shifts->size() != 1) return false;
        return like_contiguous(call, *self, self->sizes);
    }
    auto dimensions = call[2].integer_or_integers();
    if (!dimensions || dimensions->size() != shifts->size() || self->sizes.empty()) return false;
    for (Dim dimension : *dimensions)
        if (!wrap_dimension(dimension, self->dimensions())) return false;
    if (!is_on_cpu(*self) && is_like_channels_last(self->sizes, self->strides)) return false;
    return call.returns(call.fresh(self->sizes, suggested_strides(*self, self->sizes), self->dtype, self->device),
                        call.records({self}));
}

/// A copy that follows a memory format.
bool clone(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    using torch_room::MemoryFormat;
    auto format = call[1].is_absent() ? std::optional(MemoryFormat::Preserve) : call[1].memory_format();
    if (!format) return false;
    Dims strides;
    if (*format == MemoryFormat::Preserve)
        strides = preserved_strides(*self);
    else if (*format == MemoryFormat::Contiguous)
        strides = contiguous_strides(self->sizes);
    else if (self->dimensions() == (*format == MemoryFormat::ChannelsLast ? 4u : 5u))
        strides = channels_last_strides(self->sizes);
    else
        return false;
    return call.returns(call.fresh(self->sizes, std::move(strides), self->dtype, self->device), call.records({self}));
}

}  // namespace

void add_rearrangement_rules(Registry& registry) {
    registry.add_neutral("Tensor.repeat", "self repeats...", repeat);
    registry.add_neutral("torch.tril Tensor.tril torch.triu Tensor.triu", "self diagonal?", triangle);
    registry.add_neutral("Tensor.tril_ Tensor.triu_", "self diagonal?", written<triangle>);
    registry.add_neutral("torch.flip Tensor.flip", "self dims...", flip);
    registry.add_neutral("torch.roll Tensor.roll", "self shifts dims?", roll);
    registry.add_neutral("torch.clone Tensor.clone", "self * memory_format?", clone);
}

}  // namespace stator::shape
