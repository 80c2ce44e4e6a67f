/// Functions that a program has marked with `torch._dynamo.decorators.leaf_function`: a graph calls them, and no
/// compiler looks into them.
#pragma once

#include "base/ref.h"

namespace stator::torch_room {

bool is_leaf_function(PyObject* function);

}  // namespace stator::torch_room
