/// Where CPython calls Stator: C++ exceptions end here and become Python ones.
#pragma once

#include <exception>

#include "base/python_error.h"

namespace stator {

/// The new reference that `body` returns as a `Ref`, or null with the error indicator set.
template <class Body>
PyObject* at_boundary(const Body& body) {
    try {
        return body().release();
    } catch (const PythonError&) {
        return nullptr;
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        return nullptr;
    }
}

}  // namespace stator
