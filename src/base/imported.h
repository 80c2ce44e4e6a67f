/// Attributes of Python modules, by name. A name may have several parts: `ops.aten.alias`.
#pragma once

#include <string_view>

#include "base/ref.h"

namespace stator {

/// Imports the module and returns a reference to its attribute, to be kept in a `static`. Throws PythonError.
PyObject* imported(const char* module, std::string_view name);
PyTypeObject* imported_class(const char* module, const char* name);

/// The same where the module or the attribute may be missing: empty then, with no error set.
Ref<> find_imported(const char* module, std::string_view name);
/// Null where it is missing; else to be kept in a `static`.
PyTypeObject* find_imported_class(const char* module, const char* name);

}  // namespace stator
