/// The instructions of `match` and `except*` as functions; those of CPython are not exported.
/// Failures are thrown as PythonError, with CPython's messages.
#pragma once

#include "base/ref.h"

namespace stator::patterns {

/// The values of the keys in a mapping, as a tuple; None if it lacks one.
Ref<> match_keys(PyObject* mapping, PyObject* keys);

/// The attributes that a class pattern extracts, positional ones first, as a tuple; None if the subject does not match.
Ref<> match_class(PyObject* subject, PyObject* type, Py_ssize_t positional, PyObject* names);

/// Whether the objects of an `except*` are valid exception classes.
bool is_group_pattern(PyObject* pattern);

/// The matching part and the rest of an exception (or None) at an `except*`; None if a part is empty.
struct Parts {
    Ref<> matching, rest;
};
Parts split_group(PyObject* exception, PyObject* pattern);

}  // namespace stator::patterns
