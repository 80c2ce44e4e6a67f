/// Mutations of containers from outside, as side effects.
#pragma once

#include "value/effect_log.h"

namespace stator {

/// Calls the method of the builtin class itself, even if the object's class overrides it.
Effect method_effect(PyTypeObject* type, const char* method, std::vector<Value*> from);

}  // namespace stator
