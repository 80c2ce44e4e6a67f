/// The hash of a tuple, from the hashes of its items.
#pragma once

#include <Python.h>

#include <span>

namespace stator::cpython {

/// As CPython computes it. Throws PythonError.
Py_hash_t hash_of_tuple(std::span<const Py_hash_t> hashes);

}  // namespace stator::cpython
