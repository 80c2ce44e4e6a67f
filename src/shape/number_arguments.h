/// Which operations do not specialize on the value of a number argument, for symbolic numbers (see
/// value/kinds/changing_number.h).
#pragma once

#include "base/ref.h"
#include "graph/node.h"

namespace stator::shape {

/// The classes of number arguments whose value does not matter.
enum class AnyNumber : std::uint8_t { None, Float, IntOrFloat };

/// For which numbers the metadata of the result is the same for any other number of the class: arithmetic and
/// comparisons of a tensor with a number.
AnyNumber takes_any_number(graph::NodeKind kind, Borrowed<> target);

/// Whether the result, or whether the operation raises, may depend on the storage offset of a tensor.
bool minds_storage_offset(graph::NodeKind kind, Borrowed<> target);
/// Whether this is `tensor.view` with sizes, which does not depend on the offset; with a dtype it does.
bool is_view_by_sizes(graph::NodeKind kind, Borrowed<> target, std::span<const graph::Argument> arguments);

}  // namespace stator::shape
