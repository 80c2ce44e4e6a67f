/// The sizes of a tensor as one number.
#pragma once

#include <cstdint>
#include <optional>

#include "torch/tensor.h"

namespace stator::torch_room {

/// The same for two tensors of the same sizes. Nothing for an object that is no tensor, or whose sizes only Python code
/// or a symbol tells. Raises nothing.
std::optional<std::uint64_t> sizes_key(Borrowed<> object);
std::uint64_t sizes_key(const TensorCheck& check);

}  // namespace stator::torch_room
