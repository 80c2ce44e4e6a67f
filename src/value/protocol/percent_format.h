/// `format % values` if a value has a user-defined `__str__` or `__repr__`.
#pragma once

#include "value/tracer.h"

namespace stator {

/// Whether `left % right` formats a str with values that are not all constants.
bool is_percent_format(Tracer& tracer, Value* left, Value* right);
/// User-defined `__str__` and `__repr__` are inlined. Breaks if a value is not a constant.
Outcome percent_format(Tracer& tracer, Value* format, Value* values);

}  // namespace stator
