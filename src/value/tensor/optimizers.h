/// Steps of PyTorch's optimizers.
#pragma once

#include "value/value.h"

namespace stator {

/// Called before `_init_group` of an optimizer, `function`, is inlined: makes the state that the program is about to
/// make, for all groups of parameters, and starts the capture again. So the first step is the graph of the following
/// ones. Does nothing if there is no state to make, or if it would depend on what the program has done in this trace.
void make_optimizer_state(Tracer& tracer, PyObject* function, const Arguments& arguments);

}  // namespace stator
