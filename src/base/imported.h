/// What a Python module holds, by name.
#pragma once

#include "base/ref.h"

namespace stator {

/// An attribute of a module, which is imported; a reference for a `static` to keep. Throws PythonError.
PyObject* imported(const char* module, const char* name);
PyTypeObject* imported_class(const char* module, const char* name);

}  // namespace stator
