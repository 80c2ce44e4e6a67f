/// Wrapper subclasses (torch/wrappers.h) that the program creates: `_make_wrapper_subclass`, then assignments to
/// attributes. The object becomes a node of the graph when it is first used as a tensor; otherwise the plan makes it.
#pragma once

#include "value/tracer.h"

namespace stator {

struct TensorObjectValue;

/// `torch.Tensor._make_wrapper_subclass(cls, size, ...)`.
Outcome make_wrapper(Tracer& tracer, const Arguments& arguments);
/// Gives it a payload. Breaks the graph if its attributes are not all tensors and constants.
void make_node(Tracer& tracer, TensorObjectValue* wrapper);
/// An attribute that is known before there are inner tensors, such as the dtype.
Value* attribute_of_unfinished(Tracer& tracer, TensorObjectValue* wrapper, Borrowed<> name);

}  // namespace stator
