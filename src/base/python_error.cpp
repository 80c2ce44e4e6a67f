#include "base/python_error.h"

namespace stator {

TakenError TakenError::take() {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    TakenError taken;
    if (type == nullptr) return taken;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != nullptr) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    taken.exception_ = Ref<>::steal(value);
    return taken;
}

void TakenError::restore() && {
    PyObject* value = exception_.release();
    PyObject* type = Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(value)));
    PyErr_Restore(type, value, PyException_GetTraceback(value));
}

}  // namespace stator
