/// Mutations of outside containers, as side effects of the plan.
#pragma once

#include "value/tracer.h"

namespace stator {

/// A call of a method of a builtin class, even if the object's class overrides it.
Effect method_effect(PyTypeObject* type, const char* method, std::vector<Value*> from);

}  // namespace stator
