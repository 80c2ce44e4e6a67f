/// Leaves of autograd's graph that the program makes: tensors that it lets require a gradient, or no longer.
#pragma once

#include "value/tensor/tensor.h"

namespace stator {

/// `tensor.requires_grad_(wanted)`, `tensor.requires_grad = wanted`.
void set_requires_grad(Tracer& tracer, TensorValue* tensor, bool wanted);

/// `torch.nn.Parameter(data)`: a leaf that shares the memory of the data.
TensorValue* make_parameter(Tracer& tracer, TensorValue* data);

/// Called before a node makes a leaf. Backends that compile make a result with a history of it, and lose the gradient
/// of an input that starts to require one: breaks the graph, or has it run as it was captured if it may not break.
void expect_leaf_is_kept(Tracer& tracer, const char* what);

}  // namespace stator
