/// `collections.deque` objects, read without running anything.
#pragma once

#include <Python.h>

#include "base/ref.h"

namespace stator::cpython {

/// Of the class or of one below it.
bool is_deque(PyObject* object);
Py_ssize_t deque_length(PyObject* deque);
/// Null beyond the end.
Borrowed<> deque_item(PyObject* deque, Py_ssize_t index);

}  // namespace stator::cpython
