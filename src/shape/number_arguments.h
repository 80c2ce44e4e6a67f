/// Which operations mind the value of a number: for those that change from call to call (see
/// value/kinds/changing_number.h).
#pragma once

#include "base/ref.h"
#include "graph/node.h"

namespace stator::shape {

/// The numbers among its arguments that an operation does not mind.
enum class AnyNumber : std::uint8_t { None, Float, IntOrFloat };

/// For which numbers the metadata of what comes out is the same for any other of its class: arithmetic and comparisons
/// of a tensor with a number.
AnyNumber takes_any_number(graph::NodeKind kind, Borrowed<> target);

/// Whether what comes out, or whether anything does, may depend on where in its storage a tensor begins.
bool minds_storage_offset(graph::NodeKind kind, Borrowed<> target);
/// Whether this is `tensor.view` with sizes, which does not mind; with a dtype it does.
bool is_view_by_sizes(graph::NodeKind kind, Borrowed<> target, std::span<const graph::Argument> arguments);

}  // namespace stator::shape
