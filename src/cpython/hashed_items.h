/// Insertion into dicts without calling `__hash__`.
#pragma once

#include <Python.h>

namespace stator::cpython {

/// `dict[key] = value` for a key of that hash: `__hash__` is not called. Not for an OrderedDict. -1 with an error set.
int set_item_by_hash(PyObject* dict, PyObject* key, PyObject* value, Py_hash_t hash);

}  // namespace stator::cpython
