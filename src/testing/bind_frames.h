/// What the files of `bind_frames` share.
#pragma once

#include <Python.h>

#include <exception>

#include "base/check.h"
#include "base/python_error.h"

namespace stator {

/// Add their functions to the module, all named `_frames_...`. False with an exception if that fails.
bool bind_frames(PyObject* module);
bool bind_frames_bytecode(PyObject* module);
bool bind_frames_objects(PyObject* module);

/// Stands for NULL in what tests give and get. Borrowed.
PyObject* null_marker();

/// No C++ exception may reach CPython.
template <class Body>
PyObject* guarded(Body body) {
    try {
        return body();
    } catch (const PythonError&) {
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

}  // namespace stator
