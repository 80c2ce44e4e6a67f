/// What the instructions of `match` and `except*` do, as functions of objects, where CPython keeps its own to itself.
/// Failures are thrown as PythonError, in CPython's words.
#pragma once

#include "base/ref.h"

namespace stator::patterns {

/// The values of the keys in a mapping, as a tuple; None if it lacks one.
Ref<> match_keys(PyObject* mapping, PyObject* keys);

/// The attributes that a class pattern takes apart, positional ones first, as a tuple; None if the subject is another.
Ref<> match_class(PyObject* subject, PyObject* type, Py_ssize_t positional, PyObject* names);

/// Whether the objects of an `except*` are classes that it takes.
bool is_group_pattern(PyObject* pattern);

/// The two parts of an exception (or None) at an `except*`; None where a part is empty.
struct Parts {
    Ref<> matching, rest;
};
Parts split_group(PyObject* exception, PyObject* pattern);

}  // namespace stator::patterns
