/// Iterators of builtin classes, looked into without being moved on.
#pragma once

#include <Python.h>

#include <cstdint>

#include "base/ref.h"

namespace stator::cpython {

/// Whether iterators of exactly this class can be looked into: over lists, tuples, dicts and ranges, `reversed` ones,
/// and `enumerate` and `zip` of such.
bool can_look_ahead(PyTypeObject* type);

enum class Ahead : std::uint8_t {
    Item,
    End,
    Unknown,  // only `next` would tell
};

/// What the iterator would give by `steps` more than one calls of `next`, if what it iterates over stays as it is.
/// Tuples that it would make are made. Runs no code, and sets no error.
Ahead look_ahead(PyObject* iterator, Py_ssize_t steps, Ref<>* item);

/// What `reversed(sequence)` would be once it has come to the item `index`; -1: at its end. The sequence is not asked
/// for its length. A new reference, or null with an error set.
PyObject* reversed_from(PyObject* sequence, Py_ssize_t index);

/// The lists and dicts that it walks over, one after the other; null behind the last.
Borrowed<> walked_over(PyObject* iterator, Py_ssize_t index);

/// What an iterator that works on others works on: one of `enumerate`, all of `zip`; null behind the last.
Borrowed<> inner_iterator(PyObject* iterator, Py_ssize_t index);

}  // namespace stator::cpython
