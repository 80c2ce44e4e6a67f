/// Functions of the program that are called in the graph: marked with `torch.compiler.allow_in_graph` or
/// `torch._dynamo.nonstrict_trace`.
#pragma once

#include "value/value.h"

namespace stator {

/// Calls such a function in a node. Its arguments may be modules, frozen dataclasses and, of `nonstrict_trace`, objects
/// of classes that are registered with `torch.utils._pytree`: the graph passes the tensors in them.
Outcome call_in_graph(Tracer& tracer, PyObject* function, const Arguments& arguments);

/// `nonstrict_trace(function)` inside of a trace.
Outcome mark_nonstrict(Tracer& tracer, PyObject* decorator, const Arguments& arguments);

}  // namespace stator
