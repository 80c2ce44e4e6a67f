/// Weak references.
#pragma once

#include "value/value.h"

namespace stator {

/// Guards that an outside value is this object, without keeping it alive, and returns the plain weak reference to it.
/// Null for values whose identity is not guarded (constants, tensors), for new objects, and for classes without weak
/// references.
PyObject* guard_weakly(Tracer& tracer, Value* value);

}  // namespace stator
