/// Builds graphs from Python, for tests of the graph room.
#pragma once

#include "base/ref.h"

namespace stator {

/// Adds `GraphBuilder` and `GraphNode` to the module.
bool add_graph_builder_type(PyObject* module);

}  // namespace stator
