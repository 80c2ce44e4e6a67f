/// Extension modules out of functions that bind one room each.
#pragma once

#include <Python.h>

#include <span>

namespace stator {

/// Adds what it binds to the module; false with an exception.
using Binder = bool (*)(PyObject* module);

inline PyObject* make_module(PyModuleDef* definition, std::span<const Binder> binders) {
    PyObject* module = PyModule_Create(definition);
    if (module == nullptr) return nullptr;
    for (Binder bind : binders) {
        if (!bind(module)) {
            Py_DECREF(module);
            return nullptr;
        }
    }
    return module;
}

}  // namespace stator
