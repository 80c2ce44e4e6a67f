/// Functions for losses: the reduction, and the metadata of the result.
#pragma once

#include <initializer_list>

#include "shape/language/registry.h"

namespace stator::shape::loss {

/// The variant of the native operations, which take the reduction as a number.
constexpr int kNative = 1;

enum class Reduction { None, One, Unknown };

Reduction reduction_of(const Call& call, std::size_t slot);

/// Two float tensors of one dtype and device.
bool same_kind(const TensorMeta* left, const TensorMeta* right);
/// The same, also for integers, for which the loss has the default float type.
bool same_number_kind(const TensorMeta* left, const TensorMeta* right);

/// Omitted, or each a number or a `bool`.
bool are_plain_numbers(const Call& call, std::initializer_list<std::size_t> slots);

/// Either a scalar, or a contiguous tensor of these sizes; of the dtype of the first input.
bool give(Call& call, Reduction reduction, Dims sizes, std::initializer_list<const TensorMeta*> inputs);

/// For elementwise losses, whose layout follows their inputs: only contiguous inputs are supported.
bool give_elements(Call& call, Reduction reduction, std::initializer_list<const TensorMeta*> inputs);

}  // namespace stator::shape::loss
