/// Which operations do not specialize on the value of a number argument, for symbolic numbers (see
/// value/kinds/changing_number.h).
#pragma once

#include "base/ref.h"
#include "graph/node.h"

namespace stator::shape {

/// The numbers among its arguments that an operation takes whatever they are.
enum class AnyNumber : std::uint8_t { None = 0, Float = 1, Int = 2, IntOrFloat = 3 };

inline bool takes(AnyNumber taken, AnyNumber kind) {
    return (static_cast<int>(taken) & static_cast<int>(kind)) != 0;
}
inline AnyNumber operator|(AnyNumber one, AnyNumber other) {
    return static_cast<AnyNumber>(static_cast<int>(one) | static_cast<int>(other));
}

/// For which numbers the metadata of the result is the same for any other number of the class: arithmetic and
/// comparisons of a tensor with a number.
AnyNumber takes_any_number(graph::NodeKind kind, Borrowed<> target);

}  // namespace stator::shape
