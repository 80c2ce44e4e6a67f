/// What is left of an exception group behind the `except*` clauses.
#pragma once

#include "base/ref.h"

namespace stator::cpython {

/// What a `try` with `except*` raises at its end, or None: the parts of `original` that no clause took and those raised
/// again, in the original's shape, together with new exceptions. `results` is the list of what the clauses left.
Ref<> exception_to_raise_again(PyObject* original, PyObject* results);

}  // namespace stator::cpython
