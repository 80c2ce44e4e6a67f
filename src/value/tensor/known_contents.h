/// Tensors whose contents are known while tracing: few numbers, computed on the CPU from constants alone, as in
/// `torch.div(length, 2, rounding_mode="floor")` or `torch.arange(2, x.dim())`.
#pragma once

#include <optional>

#include "value/tensor/tensor.h"

namespace stator {

/// A real tensor with these numbers; empty if it depends on anything but constants, or was written to.
Ref<> known_contents(Tracer& tracer, TensorValue* tensor);

/// `bool(tensor)` of such a number, or of a comparison of `torch.rand()` whose result is the same for all random
/// numbers.
std::optional<bool> known_truth(Tracer& tracer, TensorValue* tensor);

/// The arguments of an operation, with such tensors replaced by their ints where the operation takes sizes or
/// positions, because PyTorch would read them from the tensors. Empty if there is no such argument.
std::optional<Arguments> with_known_integers(Tracer& tracer, graph::NodeKind kind, Borrowed<> target,
                                             const Arguments& arguments);

/// The same with the numbers that the graph reads from tensors that are given as sizes, where that is captured.
std::optional<Arguments> with_read_sizes(Tracer& tracer, graph::NodeKind kind, Borrowed<> target,
                                         const Arguments& arguments);

}  // namespace stator
