/// Tensors whose data is known while tracing: one number, computed on the CPU from constants only, as in
/// `torch.div(length, 2, rounding_mode="floor")` or `torch.tensor(3)`.
#pragma once

#include <optional>

#include "value/tensor/tensor.h"

namespace stator {

/// A tensor with that number; empty if it depends on anything but constants, or was written to.
Ref<> known_contents(Tracer& tracer, TensorValue* tensor);

/// `bool(tensor)` if it is known: for such a number, and for a comparison of `torch.rand` with a bound that decides it.
std::optional<bool> known_truth(Tracer& tracer, TensorValue* tensor);

/// The arguments of an operation with such tensors replaced by the ints in them, if the operation takes sizes or
/// indices, for which PyTorch would read the tensors' data. Empty if there is no such argument.
std::optional<Arguments> with_known_integers(Tracer& tracer, graph::NodeKind kind, Borrowed<> target,
                                             const Arguments& arguments);

}  // namespace stator
