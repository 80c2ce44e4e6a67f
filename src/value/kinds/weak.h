/// Weak references.
#pragma once

#include "value/value.h"

namespace stator {

/// Guards the identity of an object from outside without keeping it alive, and returns the plain weak reference to it.
/// Null for values that are not guarded by identity (constants, tensors), for objects made in the trace, and for
/// classes without weak references.
PyObject* guard_weakly(Tracer& tracer, Value* value);

}  // namespace stator
