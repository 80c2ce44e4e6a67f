#include "value/builtins/substitutes.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"

namespace stator {

namespace {

/// TorchDynamo's table; empty as long as nobody has imported what it is in.
Ref<> registered_functions() {
    static PyObject* const name = interned("torch._dynamo.variables.functions");
    PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
    if (module == nullptr) return {};
    Ref<> owner = Ref<>::steal(PyObject_GetAttrString(module, "PolyfilledFunctionVariable"));
    return owner ? Ref<>::steal(PyObject_CallMethod(owner.get(), "_get_polyfill_handlers", nullptr)) : Ref<>();
}

bool is_of_pytorch(const Ref<>& function) {
    Ref<> module = Ref<>::steal(PyObject_GetAttrString(function.get(), "__module__"));
    return !module || !PyUnicode_Check(module.get()) || utf8(module.get()).starts_with("torch.");
}

}  // namespace

Ref<> substitute_of(Borrowed<> function) {
    Ref<> table = registered_functions();
    PyObject* handler = table && PyDict_Check(table.get()) ? PyDict_GetItemWithError(table.get(), function) : nullptr;
    Ref<> found =
        handler != nullptr ? Ref<>::steal(PyObject_GetAttrString(handler, "__torch_dynamo_polyfill__")) : Ref<>();
    PyErr_Clear();
    if (!found || !PyFunction_Check(found.get()) || is_of_pytorch(found)) found = {};
    PyErr_Clear();
    return found;
}

}  // namespace stator
