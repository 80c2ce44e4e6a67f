/// Arithmetic of floats, and of floats with ints, exactly as Python does it.
#pragma once

#include "number/expression.h"

namespace stator {

/// `left op right`, where at least one is a float or the operation turns ints into a float. Empty if Python raises or
/// returns no float, and if an int is too large to be converted exactly.
std::optional<Number> apply_to_floats(Expression::Op op, Number left, Number right);

}  // namespace stator
