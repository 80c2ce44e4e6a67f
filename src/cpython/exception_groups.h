/// The rest of an exception group after its `except*` clauses.
#pragma once

#include "base/ref.h"

namespace stator::cpython {

/// The exception that a `try` with `except*` raises at its end, or None: the parts of `original` that no clause caught
/// and those raised again, in the original's structure, together with new exceptions. `results` is the list of
/// exceptions that the clauses raised.
Ref<> exception_to_raise_again(PyObject* original, PyObject* results);

}  // namespace stator::cpython
