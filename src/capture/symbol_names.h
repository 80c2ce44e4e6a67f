/// Names of sizes among the inputs of a graph.
#pragma once

#include "trace/trace.h"

namespace stator {

/// Names the placeholders of sizes, strides and offsets by their symbols (`s77`), as torch._dynamo does: a backend
/// finds the same names in the shapes of the tensors. To be called before the graph has names. Throws PythonError.
void name_size_placeholders(Trace& trace);

}  // namespace stator
