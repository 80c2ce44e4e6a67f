/// Which operations mind the value of an int: for ints that change from call to call (see value/symbolic.h).
#pragma once

#include "base/ref.h"
#include "graph/node.h"

namespace stator::shape {

/// Whether the metadata of what comes out is the same for any int among the arguments: arithmetic and comparisons of a
/// tensor with a number.
bool takes_any_integer(graph::NodeKind kind, Borrowed<> target);

/// Whether what comes out, or whether anything does, may depend on where in its storage a tensor begins.
bool minds_storage_offset(graph::NodeKind kind, Borrowed<> target);
/// Whether this is `tensor.view` with sizes, which does not mind; with a dtype it does.
bool is_view_by_sizes(graph::NodeKind kind, Borrowed<> target, std::span<const graph::Argument> arguments);

}  // namespace stator::shape
