/// Changes of containers from outside, as effects.
#pragma once

#include "value/tracer.h"

namespace stator {

/// A call of a method of a builtin class, whatever the object's own class makes of it.
Effect method_effect(PyTypeObject* type, const char* method, std::vector<Value*> from);

}  // namespace stator
