/// Weak references.
#pragma once

#include "value/value.h"

namespace stator {

/// Relies on a value from outside being that very object, without keeping it alive, and gives the one plain weak
/// reference to it. Null for what may be another object in the next call without anybody minding (a constant, a
/// tensor), for what is new, and where a class does not allow such references.
PyObject* guard_weakly(Tracer& tracer, Value* value);

}  // namespace stator
