/// Inspects iterators of builtin classes without advancing them.
#pragma once

#include <Python.h>

#include <cstdint>

#include "base/ref.h"

namespace stator::cpython {

/// Whether iterators of exactly this class can be inspected: over lists, tuples, dicts and ranges, `reversed` ones,
/// `enumerate` and `zip` of such, `itertools.count`, and `itertools.chain` of such containers.
bool can_look_ahead(PyTypeObject* type);
/// Whether its items are the numbers of a counter.
bool counts(PyTypeObject* type);

enum class Ahead : std::uint8_t {
    Item,
    End,
    Unknown,  // not known without calling `next`
};

/// As a number of steps: the item that it returned last, if its containers have not changed.
constexpr Py_ssize_t kLast = -1;
/// As a number of steps, of a generator: its state, as `generator_state` gives it.
constexpr Py_ssize_t kState = -2;
/// What the iterator would return after `steps` further calls of `next`, if its containers don't change.
/// Creates tuples that it would create. Runs no code, and sets no error.
Ahead look_ahead(PyObject* iterator, Py_ssize_t steps, Ref<>* item);

/// `reversed(sequence)` positioned at the item `index`; -1: at its end. Does not call `__len__` of the
/// sequence. A new reference, or null with an error set.
PyObject* reversed_from(PyObject* sequence, Py_ssize_t index);

/// The lists and dicts that it iterates over, one after the other; null after the last. For a view of a dict: the dict.
Borrowed<> walked_over(PyObject* iterator, Py_ssize_t index);

/// Whether this is the class of `d.keys()`, `d.values()` or `d.items()`, of an ordered dict too.
bool is_dict_view(PyTypeObject* type);

/// The inner iterators: one of `enumerate`, all of `zip`; null after the last.
Borrowed<> inner_iterator(PyObject* iterator, Py_ssize_t index);

}  // namespace stator::cpython
