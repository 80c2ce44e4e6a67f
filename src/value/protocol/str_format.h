/// `str.format` with values that are not all constants: each field is read, converted and formatted by itself.
#pragma once

#include "value/tracer.h"

namespace stator {

/// A str value. What the program's own `__format__`, `__str__` and `__getattr__` do is inlined.
Outcome format_fields(Tracer& tracer, Borrowed<> format, Arguments values);

}  // namespace stator
