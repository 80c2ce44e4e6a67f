/// `format % values` where a value's text is the program's own business.
#pragma once

#include "value/tracer.h"

namespace stator {

/// Whether `left % right` formats a str with values that are not all constants.
bool is_percent_format(Tracer& tracer, Value* left, Value* right);
/// The program's `__str__` and `__repr__` are inlined. Breaks where a value is not known.
Outcome percent_format(Tracer& tracer, Value* format, Value* values);

}  // namespace stator
