/// Hashes of keys that a dict has stored, and insertion without calling `__hash__`.
#pragma once

#include <Python.h>

namespace stator::cpython {

/// `dict[key] = value` for a key of that hash: `__hash__` is not called. Not for an OrderedDict. -1 with an error set.
int set_item_by_hash(PyObject* dict, PyObject* key, PyObject* value, Py_hash_t hash);

/// `dict[key]`, borrowed; null if there is none. A key whose `__hash__` is a Python function, which is not called, is
/// found by its identity.
PyObject* item_without_hashing(PyObject* dict, PyObject* key);

/// Key `number` / 2 of a dict, in its order, or the value of that key if `number` is odd. Borrowed; null if there is
/// none, if the object is no dict or OrderedDict, or if the key is no int.
PyObject* entry_of(PyObject* dict, int number);

/// A Python function of a dict: the hashes of its keys in order, as the bytes of a `Py_hash_t` each; None if all keys
/// are strings. Runs no code. Borrowed, never freed.
PyObject* stored_hashes_function();

}  // namespace stator::cpython
