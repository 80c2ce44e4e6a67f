/// Attributes of Python modules, by name.
#pragma once

#include "base/ref.h"

namespace stator {

/// Imports the module and returns a reference to its attribute, to be kept in a `static`. Throws PythonError.
PyObject* imported(const char* module, const char* name);
PyTypeObject* imported_class(const char* module, const char* name);

}  // namespace stator
