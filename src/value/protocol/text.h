/// Conversions to text: `repr`, `str`, `format`.
#pragma once

#include "value/tracer.h"

namespace stator {

/// `repr(value)` and `str(value)` as str values. User-defined `__repr__` and `__str__` are inlined, also those of items
/// of containers; breaks for unknown text (a tensor's data).
Outcome repr_of(Tracer& tracer, Value* value);
Outcome str_of(Tracer& tracer, Value* value);
/// `format(value, specification)`; an empty specification may be null.
Outcome format_of(Tracer& tracer, Value* value, Value* specification);

}  // namespace stator
