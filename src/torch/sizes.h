/// A hash of the sizes of a tensor.
#pragma once

#include <cstdint>
#include <optional>

#include "torch/tensor.h"

namespace stator::torch_room {

/// Equal for two tensors of the same sizes. None for an object that is not a tensor, or whose sizes are symbolic or
/// computed by Python code. Raises nothing.
std::optional<std::uint64_t> sizes_key(Borrowed<> object);
std::uint64_t sizes_key(const TensorCheck& check);

}  // namespace stator::torch_room
