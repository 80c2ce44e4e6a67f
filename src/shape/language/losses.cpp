#include "shape/language/losses.h"

#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape::loss {

using torch_room::is_floating;
using torch_room::is_integral;

Reduction reduction_of(const Call& call, std::size_t slot) {
    const Operand& operand = call[slot];
    if (!operand.is_given()) return Reduction::One;
    if (call.variant() == kNative) {
        auto number = operand.integer();
        if (!number || *number < 0 || *number > 2) return Reduction::Unknown;
        return *number == 0 ? Reduction::None : Reduction::One;
    }
    auto name = operand.string();
    if (name == "mean" || name == "sum") return Reduction::One;
    return name == "none" ? Reduction::None : Reduction::Unknown;
}

bool same_kind(const TensorMeta* left, const TensorMeta* right) {
    return left != nullptr && right != nullptr && left->dtype == right->dtype && left->device == right->device &&
           is_floating(left->dtype);
}

bool same_number_kind(const TensorMeta* left, const TensorMeta* right) {
    return left != nullptr && right != nullptr && left->dtype == right->dtype && left->device == right->device &&
           (is_floating(left->dtype) || (is_integral(left->dtype) && left->dtype != torch_room::dtype::kBool));
}

bool are_plain_numbers(const Call& call, std::initializer_list<std::size_t> slots) {
    for (std::size_t slot : slots)
        if (call[slot].is_given() && !call[slot].real() && !call[slot].boolean()) return false;
    return true;
}

bool give(Call& call, Reduction reduction, Dims sizes, std::initializer_list<const TensorMeta*> inputs) {
    if (reduction == Reduction::Unknown) return false;
    const TensorMeta* first = *inputs.begin();
    if (reduction == Reduction::One) sizes.clear();
    Dtype type = is_integral(first->dtype) ? call.state().default_dtype : first->dtype;
    return call.returns(call.fresh(std::move(sizes), type, first->device), call.records(inputs));
}

bool give_elements(Call& call, Reduction reduction, std::initializer_list<const TensorMeta*> inputs) {
    const TensorMeta* first = *inputs.begin();
    for (const TensorMeta* input : inputs) {
        if (input == nullptr) continue;
        if (input->sizes != first->sizes) return false;
        if (reduction != Reduction::None) continue;
        if (!is_contiguous(input->sizes, input->strides) || has_idle_strides(*input)) return false;
    }
    return give(call, reduction, first->sizes, inputs);
}

}  // namespace stator::shape::loss
