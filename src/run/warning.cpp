#include "run/warning.h"

#include "base/python_error.h"

namespace stator {

namespace {

/// Throws PythonError.
void log(PyObject* message) {
    Ref<> logging = checked(PyImport_ImportModule("logging"));
    Ref<> logger = checked(PyObject_CallMethod(logging.get(), "getLogger", "s", "stator"));
    checked(PyObject_CallMethod(logger.get(), "warning", "sO", "%s", message));
}

}  // namespace

void warn(Borrowed<> message, Borrowed<> file, int line) {
    // Without a registry: no trace of it is left in the program's globals.
    if (PyErr_WarnExplicitObject(PyExc_RuntimeWarning, message, file, line, nullptr, nullptr) == 0) return;
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw PythonError();
    PyErr_Clear();
    try {
        log(message);
    } catch (const PythonError&) {
        if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw;
        PyErr_Clear();
    }
}

}  // namespace stator
