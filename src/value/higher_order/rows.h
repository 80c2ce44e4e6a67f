/// Rows of tensors, for operations that run a function for each of them.
#pragma once

#include "value/higher_order/subgraph_trace.h"

namespace stator {

/// A value that must be a tensor; breaks the graph for others.
TensorValue* tensor_of(Tracer& tracer, const SubgraphTrace& trace, Value* value);
/// The metadata of a tensor that must have at least one row.
const torch_room::TensorMeta& rows_of(Tracer& tracer, const SubgraphTrace& trace, Value* value);
/// The metadata of one row.
torch_room::TensorMeta row_of(const torch_room::TensorMeta& rows);
/// The metadata of rows like this one, one after the other.
torch_room::TensorMeta stacked(const torch_room::TensorMeta& row, Dim count);

}  // namespace stator
