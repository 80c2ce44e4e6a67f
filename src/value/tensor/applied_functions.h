/// `torch.autograd.Function` inside of a function transform, or of a function that is recomputed.
#pragma once

#include "value/kinds/class.h"
#include "value/tracer.h"

namespace stator {

/// `Function.apply(...)`, where the first argument is the class: one node, which applies the program's own class. Which
/// of its methods PyTorch calls, and on tensors of which level, depends on the levels: `vmap` of the class for one of
/// `torch.vmap`. Breaks the graph unless all methods only compute.
Outcome apply_in_transform(Tracer& tracer, ClassValue* function, const Arguments& arguments);
/// The same where a gradient is needed inside of a checkpointed function: PyTorch applies the class once more in the
/// backward pass.
Outcome apply_in_checkpoint(Tracer& tracer, ClassValue* function, const Arguments& arguments);

}  // namespace stator
