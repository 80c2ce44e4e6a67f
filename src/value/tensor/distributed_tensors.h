/// DTensors. The functions that convert them from and to plain tensors are nodes of the graph, as with torch._dynamo:
/// what they do with device meshes and placements, and the autograd functions in them, are not traced.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

void register_distributed_tensors(Handlers& handlers);

}  // namespace stator
