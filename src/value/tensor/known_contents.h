/// What a tensor holds, where that is known while tracing: one number, computed on the CPU from constants alone, as in
/// `torch.div(length, 2, rounding_mode="floor")` or `torch.tensor(3)`.
#pragma once

#include <optional>

#include "value/tensor/tensor.h"

namespace stator {

/// A tensor with that number; empty if it depends on anything but constants, or was written to.
Ref<> known_contents(Tracer& tracer, TensorValue* tensor);

/// What `bool(tensor)` says, where that is known: for such a number, and for a comparison of `torch.rand`'s with one
/// that none of them is below.
std::optional<bool> known_truth(Tracer& tracer, TensorValue* tensor);

/// The arguments of an operation with the integers that such tensors hold in their place, where the operation takes
/// sizes or positions: PyTorch would ask the tensors for them. Empty if there is no such argument.
std::optional<Arguments> with_known_integers(Tracer& tracer, graph::NodeKind kind, Borrowed<> target,
                                             const Arguments& arguments);

}  // namespace stator
