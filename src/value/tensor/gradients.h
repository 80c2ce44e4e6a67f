/// `torch.autograd.grad` and `backward()` inside of the program, where the settings of torch._dynamo ask to capture
/// them.
#pragma once

#include "value/tensor/tensor.h"

namespace stator {

/// `torch.autograd.grad(...)`, captured as a node. Breaks the graph for forms that are not captured.
Outcome capture_gradients(Tracer& tracer, const Arguments& arguments);
/// `tensor.backward(...)`: the gradients are computed by a node, and added to those of the leaves.
Outcome capture_backward(Tracer& tracer, const Arguments& arguments);

/// Called with the results of the graph. A compiler does not know which history a result had before autograd freed it,
/// or which leaf it starts from: such a graph runs as it was captured.
void check_results_after_autograd(Tracer& tracer, const graph::Argument::Items& results);

}  // namespace stator
