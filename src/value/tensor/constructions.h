/// Tensors made of lists of numbers: `torch.tensor([a, b])` where these are tensors, `torch.LongTensor([1, 2])`,
/// `torch._shape_as_tensor`.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

/// `torch.tensor` of a list of tensors or numpy scalars that the graph computes, none of which has dimensions: their
/// numbers are stacked, and none is read. Null for any other call.
Value* stacked_numbers(Tracer& tracer, const Arguments& arguments);

/// `torch.Tensor([1, 2])`, of the default dtype.
Outcome tensor_of_default_class(Tracer& tracer, const Arguments& arguments);

void register_constructions(Handlers& handlers);

}  // namespace stator
