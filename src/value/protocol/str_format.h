/// `str.format` with values that are not all constants: each field is read, converted and formatted separately.
#pragma once

#include "value/tracer.h"

namespace stator {

/// A str value. User-defined `__format__`, `__str__` and `__getattr__` are inlined.
Outcome format_fields(Tracer& tracer, Borrowed<> format, Arguments values);

}  // namespace stator
