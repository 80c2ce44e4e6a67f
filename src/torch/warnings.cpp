#include "torch/warnings.h"

#include <c10/util/Exception.h>

#include "base/python_error.h"

namespace stator::torch_room {

namespace {

/// The module `warnings`; never freed.
PyObject* warnings_module() {
    static PyObject* const module = checked(PyImport_ImportModule("warnings")).release();
    return module;
}

PyObject* ignoring_all() {
    static PyObject* const filters =
        checked(Py_BuildValue("[(sOOOi)]", "ignore", Py_None, PyExc_Warning, Py_None, 0)).release();
    return filters;
}

}  // namespace

WithoutWarnings::WithoutWarnings() : always_(c10::WarningUtils::get_warnAlways()) {
    filters_ = checked(PyObject_GetAttrString(warnings_module(), "filters"));
    checked(PyObject_SetAttrString(warnings_module(), "filters", ignoring_all()));
    // Warnings that PyTorch gives once are then given without being recorded.
    c10::WarningUtils::set_warnAlways(true);
}

WithoutWarnings::~WithoutWarnings() {
    ErrorAside aside;
    c10::WarningUtils::set_warnAlways(always_);
    if (PyObject_SetAttrString(warnings_module(), "filters", filters_.get()) < 0) PyErr_Clear();
}

}  // namespace stator::torch_room
