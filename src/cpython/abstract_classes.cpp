#include "cpython/abstract_classes.h"

#include <Python.h>

#include "base/ref.h"

namespace stator::cpython {

namespace {

/// Reads the token by a call.
std::uint64_t token_by_call(PyObject* module) {
    Ref<> token = Ref<>::steal(module == nullptr ? nullptr : PyObject_CallMethod(module, "get_cache_token", nullptr));
    std::uint64_t number = token ? PyLong_AsUnsignedLongLong(token.get()) : 0;
    if (PyErr_Occurred()) PyErr_Clear();
    return number;
}

/// The address of the token in module `_abc`: behind one pointer, in 3.11 to 3.13. Null if the layout differs.
const std::uint64_t* token_address(PyObject* module) {
    if (module == nullptr || PyModule_GetDef(module) == nullptr) return nullptr;
    if (PyModule_GetDef(module)->m_size < static_cast<Py_ssize_t>(2 * sizeof(std::uint64_t))) return nullptr;
    const auto* state = static_cast<const std::uint64_t*>(PyModule_GetState(module));
    return state != nullptr && state[1] == token_by_call(module) ? &state[1] : nullptr;
}

}  // namespace

std::uint64_t abstract_class_token() {
    static PyObject* const module = PyImport_ImportModule("_abc");
    static const std::uint64_t* const kept = token_address(module);
    return kept != nullptr ? *kept : token_by_call(module);
}

}  // namespace stator::cpython
