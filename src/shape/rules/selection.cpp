/// Elementwise operations with several operands: where, clamp, masked_fill, lerp, addcmul.
#include "shape/language/index.h"
#include "shape/language/promotion.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;
using torch_room::is_complex;
using torch_room::is_integral;

bool where(Call& call) {
    const TensorMeta* condition = call[0].tensor();
    if (condition == nullptr) return false;
    // With only a condition it is `nonzero`.
    if (!call[1].is_given() && !call[2].is_given()) return returns_positions(call, call[0]);
    if (condition->dtype != kBool) return false;
    if (call[1].tensor() == nullptr && call[2].tensor() == nullptr) return false;
    Elementwise elementwise(call);
    if (!elementwise.add_untyped(call[0]) || !elementwise.add(call[1]) || !elementwise.add(call[2])) return false;
    return elementwise.gives(OutputType::Common);
}

/// `x.where(condition, other)`.
bool where_method(Call& call) {
    std::swap(call.slots()[0], call.slots()[1]);
    return where(call);
}

bool clamp(Call& call) {
    const Operand &self = call[0], &low = call[1], &high = call[2];
    if (self.tensor() == nullptr || (low.is_absent() && high.is_absent())) return false;
    bool tensors = low.tensor() != nullptr || high.tensor() != nullptr;
    Elementwise elementwise(call);
    if (!elementwise.add(self)) return false;
    for (const Operand* bound : {&low, &high}) {
        if (bound->is_absent()) continue;
        // Bounds are both numbers or both tensors.
        if ((bound->tensor() != nullptr) != tensors || !elementwise.add(*bound)) return false;
        if (bound->number_type() == kBool) return false;
    }
    auto common = elementwise.common_type();
    if (!common || is_complex(*common) || *common == kBool) return false;
    if (call.variant() != 0) {
        if (*common != self.tensor()->dtype) return false;
        return elementwise.writes_to(self, OutputType::Common);
    }
    if (tensors) return elementwise.gives(OutputType::Common);
    // Number bounds are parameters, not operands: the layout follows the tensor only.
    Elementwise alone(call);
    return alone.add(self) && alone.gives_type(*common);
}

/// `clamp_min(x, low)` and `clamp_max(x, high)`.
bool clamp_one_side(Call& call) {
    call.slots()[2] = Operand();
    return clamp(call);
}

/// Whether a number can be stored without losing its kind.
bool holds(Dtype type, const Operand& number) {
    auto given = number.number_type();
    return given && torch_room::can_cast(*given, type);
}

bool masked_fill(Call& call) {
    const TensorMeta *self = call[0].tensor(), *mask = call[1].tensor();
    if (self == nullptr || mask == nullptr || mask->dtype != kBool || mask->device != self->device) return false;
    const TensorMeta* value = call[2].tensor();
    if (value != nullptr ? !value->sizes.empty() || value->dtype != self->dtype || value->device != self->device
                         : !holds(self->dtype, call[2]))
        return false;
    auto sizes = broadcast(self->sizes, mask->sizes);
    if (!sizes) return false;
    if (call.variant() != 0) return *sizes == self->sizes && call.returns_written(call[0], call.records({self, value}));
    return call.returns(call.fresh(std::move(*sizes), self->dtype, self->device), call.records({self, value}));
}

bool lerp(Call& call) {
    const TensorMeta *start = call[0].tensor(), *end = call[1].tensor(), *weight = call[2].tensor();
    if (start == nullptr || end == nullptr || start->dtype != end->dtype || is_integral(start->dtype)) return false;
    if (weight != nullptr ? weight->dtype != start->dtype : !call[2].real()) return false;
    Elementwise elementwise(call);
    if (!elementwise.add(call[0]) || !elementwise.add(call[1])) return false;
    if (weight != nullptr && !elementwise.add(call[2])) return false;
    return call.variant() != 0 ? elementwise.writes_to(call[0], OutputType::Common)
                               : elementwise.gives(OutputType::Common);
}

/// `self + value * a * b` and `self + value * a / b`.
bool add_product(Call& call) {
    if (call[3].is_given() && !call[3].real()) return false;
    Elementwise elementwise(call);
    for (std::size_t i = 0; i < 3; ++i)
        if (call[i].tensor() == nullptr || !elementwise.add(call[i])) return false;
    auto common = elementwise.common_type();
    // Integers can't be divided, but they can be multiplied.
    bool divides = call.variant() & 2;
    if (!common || is_complex(*common) || *common == kBool || (is_integral(*common) && divides)) return false;
    if (is_integral(*common) && call[3].is_given() && !call[3].integer()) return false;
    return (call.variant() & 1) ? elementwise.writes_to(call[0], OutputType::Common)
                                : elementwise.gives(OutputType::Common);
}

/// `fill_`, `zero_`: the tensor itself with other values.
bool fill(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    if (call.variant() != 0) return call.returns_written(call[0], call.records({self}));
    if (const TensorMeta* value = call[1].tensor()) {
        if (!value->sizes.empty() || value->device != self->device) return false;
        return call.returns_written(call[0], call.records({self, value}));
    }
    if (!holds(self->dtype, call[1])) return false;
    return call.returns_written(call[0], call.records({self}));
}

}  // namespace

void add_selection_rules(Registry& registry) {
    registry.add_neutral("torch.where", "condition self? other?", where);
    registry.add_neutral("Tensor.where", "self condition other", where_method);
    registry.add_neutral("torch.clamp Tensor.clamp torch.clip Tensor.clip", "self min? max?", clamp);
    registry.add_neutral("torch.clamp_ torch.clip_ Tensor.clamp_ Tensor.clip_", "self min? max?", clamp, 1);
    registry.add_neutral("torch.clamp_min Tensor.clamp_min", "self min", clamp_one_side);
    registry.add_neutral("torch.clamp_max Tensor.clamp_max", "self max", clamp_one_side);
    registry.add_neutral("Tensor.clamp_min_ torch.clamp_min_", "self min", clamp_one_side, 1);
    registry.add_neutral("Tensor.clamp_max_ torch.clamp_max_", "self max", clamp_one_side, 1);
    registry.add_neutral("torch.masked_fill Tensor.masked_fill", "self mask value", masked_fill);
    registry.add_neutral("Tensor.masked_fill_", "self mask value", masked_fill, 1);
    registry.add_neutral("torch.lerp Tensor.lerp", "self end weight", lerp);
    registry.add_neutral("Tensor.lerp_", "self end weight", lerp, 1);
    const char* product = "self tensor1 tensor2 * value?";
    registry.add_neutral_on_cpu("torch.addcmul Tensor.addcmul", product, add_product);
    registry.add_neutral_on_cpu("Tensor.addcmul_", product, add_product, 1);
    registry.add_neutral_on_cpu("torch.addcdiv Tensor.addcdiv", product, add_product, 2);
    registry.add_neutral_on_cpu("Tensor.addcdiv_", product, add_product, 3);
    registry.add_neutral("Tensor.fill_ torch.fill_", "self value", fill, 0);
    registry.add_neutral("Tensor.zero_ torch.zero_", "self", fill, 1);
}

}  // namespace stator::shape
