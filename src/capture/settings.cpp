#include "capture/settings.h"

#include <cstdlib>
#include <string_view>

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

bool dynamo_switch(const char* name, const char* variable) {
    ErrorAside aside;
    PyObject* config = PyDict_GetItemString(PyImport_GetModuleDict(), "torch._dynamo.config");
    if (config == nullptr) {
        const char* value = std::getenv(variable);
        return value != nullptr && std::string_view(value) == "1";
    }
    Ref<> value = Ref<>::steal(PyObject_GetAttrString(config, name));
    const bool is_on = value && PyObject_IsTrue(value.get()) == 1;
    PyErr_Clear();
    return is_on;
}

}  // namespace stator
