/// What values are as text: `repr`, `str`, `format`.
#pragma once

#include "value/tracer.h"

namespace stator {

/// `repr(value)` and `str(value)`, as str values. The program's own `__repr__` and `__str__` are inlined, also those of
/// items of containers; what is not known (a tensor's data) breaks.
Outcome repr_of(Tracer& tracer, Value* value);
Outcome str_of(Tracer& tracer, Value* value);
/// `format(value, specification)`; an empty specification may be null.
Outcome format_of(Tracer& tracer, Value* value, Value* specification);

}  // namespace stator
