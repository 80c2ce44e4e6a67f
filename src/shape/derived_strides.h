/// Strides that follow from sizes which change between calls.
#pragma once

#include "torch/tensor.h"

namespace stator::shape {

/// Where the stride of a dimension is the size times the stride of another one, it is taken to be so in every call:
/// makes it an expression if that changes. `dynamic` gets which strides follow from which dimension.
void derive_strides(torch_room::DynamicSizes& dynamic, torch_room::TensorMeta& meta);

}  // namespace stator::shape
