#include "capture/settings.h"

#include "base/python_error.h"
#include "base/ref.h"
#include "base/text.h"

namespace stator {

namespace {

/// `stator.settings.values[name]`: one plain dict for the life of the process.
PyObject* value_of(const char* name) {
    static PyObject* values = nullptr;
    if (values == nullptr) {
        Ref<> module = Ref<>::steal(PyImport_ImportModule("stator.settings"));
        if (module) values = PyObject_GetAttrString(module.get(), "values");
    }
    return values != nullptr && PyDict_Check(values) ? PyDict_GetItemString(values, name) : nullptr;
}

}  // namespace

long setting(const char* name, long otherwise) {
    ErrorAside aside;
    PyObject* value = value_of(name);
    long number = value == nullptr ? otherwise : PyLong_AsLong(value);
    PyErr_Clear();
    return number;
}

std::string text_setting(const char* name) {
    ErrorAside aside;
    PyObject* value = value_of(name);
    PyErr_Clear();
    return value != nullptr && PyUnicode_Check(value) ? std::string(utf8(value)) : "";
}

}  // namespace stator
