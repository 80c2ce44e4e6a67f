/// Operations whose results depend on data: the number of elements, or the value of one.
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

bool unknown(Call& call) {
    return call[0].tensor() != nullptr && call.depends_on_contents();
}

bool masked_select(Call& call) {
    const TensorMeta *self = call[0].tensor(), *mask = call[1].tensor();
    if (self == nullptr || mask == nullptr || mask->dtype != kBool || !broadcast(self->sizes, mask->sizes))
        return false;
    return call.depends_on_contents();
}

bool bincount(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || self->dimensions() != 1 || !torch_room::is_integral(self->dtype) || self->dtype == kBool)
        return false;
    return call.depends_on_contents();
}

/// `item()` and `float(x)` of one element.
bool item(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && element_count(self->sizes) == 1 && call.depends_on_contents();
}

/// `equal` of any two tensors, which may have different sizes.
bool equal(Call& call) {
    const TensorMeta *self = call[0].tensor(), *other = call[1].tensor();
    return self != nullptr && other != nullptr && self->dtype == other->dtype && self->device == other->device &&
           call.depends_on_contents();
}

bool two_tensors(Call& call) {
    const TensorMeta *self = call[0].tensor(), *other = call[1].tensor();
    if (self == nullptr || other == nullptr || self->dtype != other->dtype || self->device != other->device)
        return false;
    return self->sizes == other->sizes && element_count(self->sizes) != 0 && call.depends_on_contents();
}

/// Counts between bounds: the size is the number of bins.
bool histc(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto bins = call[1].integer_or(100);
    if (self == nullptr || !torch_room::is_floating(self->dtype) || !bins || *bins <= 0 || !is_on_cpu(*self))
        return false;
    auto low = call[2].is_given() ? call[2].real() : 0.0, high = call[3].is_given() ? call[3].real() : 0.0;
    if (!low || !high || *low > *high) return false;
    return call.returns(call.fresh({*bins}, self->dtype, self->device));
}

}  // namespace

void add_data_dependent_rules(Registry& registry) {
    registry.add_neutral("torch.nonzero Tensor.nonzero", "self * as_tuple?", unknown);
    registry.add_neutral("torch.argwhere Tensor.argwhere", "self", unknown);
    registry.add_neutral("torch.masked_select Tensor.masked_select", "self mask", masked_select);
    registry.add_neutral("torch.bincount Tensor.bincount", "self weights? minlength?", bincount);
    registry.add_neutral("torch.unique Tensor.unique", "self sorted? return_inverse? return_counts? dim?", unknown);
    registry.add_neutral("torch.unique_consecutive Tensor.unique_consecutive",
                         "self return_inverse? return_counts? dim?", unknown);
    registry.add_neutral("_VF._unique2", "self sorted? return_inverse? return_counts?", unknown);
    registry.add_neutral("_VF.unique_consecutive", "self return_inverse? return_counts? dim?", unknown);
    registry.add_neutral("_VF.unique_dim", "self dim sorted? return_inverse? return_counts?", unknown);
    registry.add_neutral("Tensor.item Tensor.__bool__ Tensor.__float__ Tensor.__int__ Tensor.__index__", "self", item);
    registry.add_neutral("torch.equal Tensor.equal", "self other", equal);
    registry.add_neutral("torch.allclose Tensor.allclose", "self other rtol? atol? equal_nan?", two_tensors);
    registry.add_neutral_on_cpu("torch.histc Tensor.histc", "self bins? min? max?", histc);
}

}  // namespace stator::shape
