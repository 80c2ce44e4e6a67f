/// What losses have in common: how they are reduced, and what then comes out.
#pragma once

#include <initializer_list>

#include "shape/language/registry.h"

namespace stator::shape::loss {

/// The variant of the operations behind `torch.nn.functional`, to which the reduction comes as a number.
constexpr int kNative = 1;

enum class Reduction { None, One, Unknown };

Reduction reduction_of(const Call& call, std::size_t slot);

/// Two float tensors of one dtype and device.
bool same_kind(const TensorMeta* left, const TensorMeta* right);
/// The same, also of integers, with which the loss is of the default float type.
bool same_number_kind(const TensorMeta* left, const TensorMeta* right);

/// Left out, or each a number or a `bool`.
bool are_plain_numbers(const Call& call, std::initializer_list<std::size_t> slots);

/// Either one number, or a contiguous tensor of these sizes; of the dtype of the first input.
bool give(Call& call, Reduction reduction, Dims sizes, std::initializer_list<const TensorMeta*> inputs);

/// For losses of each element, which follow their inputs in layout: only contiguous ones are sure.
bool give_elements(Call& call, Reduction reduction, std::initializer_list<const TensorMeta*> inputs);

}  // namespace stator::shape::loss
