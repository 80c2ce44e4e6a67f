/// Tensors that have matched before: thousands are compared in a few microseconds.
#pragma once

#include <span>

#include "torch/tensor.h"

namespace stator::torch_room {

/// A tensor that matched, with its internal pointers. If they have changed, `all_match` returns false without reading
/// further: comparisons don't wait for a pointer to be loaded.
struct ExpectedTensor {
    PyObject* object;
    const TensorCheck* check;
    const void* implementation;
    const void* autograd;
    /// It had the memory image of the check, and its `requires_grad` does not depend on a base tensor.
    bool is_plain;
};
ExpectedTensor expect_again(Borrowed<> tensor, const TensorCheck& check);

/// True only if all still match. The addresses have to be those of live objects, of any class.
bool all_match(std::span<const ExpectedTensor> tensors);

}  // namespace stator::torch_room
