/// Arithmetic of floats, and of floats with ints, exactly as Python does it.
#pragma once

#include "source/expression.h"

namespace stator {

/// `left op right`, where at least one is a float or the operation makes one of ints. Empty where Python raises or
/// gives no float, and where ints are too large for it to be done in floats.
std::optional<Number> apply_to_floats(Expression::Op op, Number left, Number right);

}  // namespace stator
