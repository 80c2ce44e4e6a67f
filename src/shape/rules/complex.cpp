/// Complex tensors from pairs of real numbers, and views as such pairs.
#include "shape/language/promotion.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

bool has_complex_form(Dtype type) {
    return type == kFloat || type == kDouble;
}

/// `complex(real, imag)` and `polar(abs, angle)`.
bool complex_of(Call& call) {
    const TensorMeta *first = call[0].tensor(), *second = call[1].tensor();
    if (first == nullptr || second == nullptr || first->dtype != second->dtype || !has_complex_form(first->dtype) ||
        first->device != second->device)
        return false;
    Elementwise elementwise(call);
    return elementwise.add(call[0]) && elementwise.add(call[1]) &&
           elementwise.gives_type(torch_room::to_complex(first->dtype));
}

bool view_as_real(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || (self->dtype != kComplexFloat && self->dtype != kComplexDouble)) return false;
    Dims sizes = self->sizes, strides = self->strides;
    for (Dim& stride : strides) stride *= 2;
    sizes.push_back(2);
    strides.push_back(1);
    TensorMeta view = call.view_of(*self, std::move(sizes), std::move(strides), self->storage_offset * 2);
    view.dtype = torch_room::to_real(self->dtype);
    return call.returns_view(call[0], std::move(view));
}

/// The last dimension holds the pairs, and each pair has the memory layout of a complex number.
bool view_as_complex(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !has_complex_form(self->dtype) || self->sizes.empty() || self->sizes.back() != 2 ||
        self->strides.back() != 1 || self->storage_offset % 2 != 0)
        return false;
    Dims sizes(self->sizes.begin(), self->sizes.end() - 1), strides(self->strides.begin(), self->strides.end() - 1);
    for (Dim& stride : strides) {
        if (stride % 2 != 0) return false;
        stride = stride / 2;
    }
    TensorMeta view = call.view_of(*self, std::move(sizes), std::move(strides), self->storage_offset / 2);
    view.dtype = torch_room::to_complex(self->dtype);
    return call.returns_view(call[0], std::move(view));
}

/// `conj`, `real` and others for real tensors.
bool is_real_already(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && !torch_room::is_complex(self->dtype) && call.returns_same(call[0]);
}

}  // namespace

void add_complex_rules(Registry& registry) {
    registry.add_neutral_on_cpu("torch.complex", "real imag", complex_of);
    registry.add_float32_on_cpu("torch.polar", "abs angle", complex_of);
    registry.add_neutral_on_cpu("torch.view_as_real", "self", view_as_real);
    registry.add_neutral(
        "torch.conj Tensor.conj torch.resolve_conj Tensor.resolve_conj torch.resolve_neg Tensor.resolve_neg "
        "torch.real torch.conj_physical Tensor.conj_physical",
        "self", is_real_already);
    registry.add("torch.view_as_complex", "self", view_as_complex);
}

}  // namespace stator::shape
