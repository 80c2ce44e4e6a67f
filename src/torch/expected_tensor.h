/// Tensors that have matched before: thousands are compared in a few microseconds.
#pragma once

#include <span>

#include "torch/tensor.h"

namespace stator::torch_room {

/// A tensor that matched, with the parts that it had. Where it has other parts, `all_match` says no without looking
/// further: what is compared need not wait for a pointer to be read.
struct ExpectedTensor {
    PyObject* object;
    const TensorCheck* check;
    const void* implementation;
    const void* autograd;
    /// It looked like the image of the check, and asks nobody else whether it requires a gradient.
    bool is_plain;
};
ExpectedTensor expect_again(Borrowed<> tensor, const TensorCheck& check);

/// True only if all match still. The objects have to be alive, whatever they are by now.
bool all_match(std::span<const ExpectedTensor> tensors);

}  // namespace stator::torch_room
