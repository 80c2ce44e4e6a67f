/// Compiled modules as libraries know them: `set_wrapper_slots` for calls of the modules of `stator.install()`
/// (stator/wrapped_modules.py), `append_to_mro` for `isinstance` with torch's class (stator/modules.py).
#include <Python.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/ref.h"
#include "cpython/objects.h"

namespace stator {

namespace {

/// The dicts of the hooks for all modules.
const std::array<PyObject*, 4>& global_hooks() {
    auto find = [](const char* name) { return find_imported("torch.nn.modules.module", name).release(); };
    static const std::array<PyObject*, 4> hooks{find("_global_forward_hooks"), find("_global_forward_pre_hooks"),
                                                find("_global_backward_hooks"), find("_global_backward_pre_hooks")};
    return hooks;
}

bool is_empty(PyObject* hooks) {
    return hooks != nullptr && PyDict_Check(hooks) && PyDict_GET_SIZE(hooks) == 0;
}

bool has_no_hooks(PyObject* attributes) {
    for (const char* name : {"_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"})
        if (!is_empty(PyDict_GetItemWithError(attributes, interned(name)))) return false;
    return std::ranges::all_of(global_hooks(), is_empty);
}

/// Calls `forward` of the wrapper, which is the compiled call of the model; with hooks the `__call__` of its class.
PyObject* call_wrapper(PyObject* self, PyObject* arguments, PyObject* keywords) {
    PyObject* attributes = cpython::instance_dict(self).get();
    Ref<> callee;
    if (attributes != nullptr && has_no_hooks(attributes))
        if (PyObject* forward = PyDict_GetItemWithError(attributes, interned("forward")))
            callee = Ref<>::share(forward);
    if (!callee) {
        Ref<> method = Ref<>::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(self)), interned("__call__")));
        callee = method ? Ref<>::steal(PyMethod_New(method.get(), self)) : Ref<>();
    }
    if (!callee) return nullptr;
    return PyObject_VectorcallDict(callee.get(), &PyTuple_GET_ITEM(arguments, 0),
                                   static_cast<std::size_t>(PyTuple_GET_SIZE(arguments)), keywords);
}

PyObject* set_wrapper_slots(PyObject*, PyObject* object) {
    if (!PyType_Check(object)) return PyErr_Format(PyExc_TypeError, "a class is expected");
    reinterpret_cast<PyTypeObject*>(object)->tp_call = call_wrapper;
    Py_RETURN_NONE;
}

/// Appends a class to the resolution order of another one, behind `object`: its instances are instances of that class
/// to `isinstance`, but find nothing in it that they have from elsewhere, and `super()` never leads to it.
PyObject* append_to_mro(PyObject*, PyObject* arguments) {
    PyObject *type = nullptr, *appended = nullptr;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyType_Type, &type, &PyType_Type, &appended)) return nullptr;
    auto* changed = reinterpret_cast<PyTypeObject*>(type);
    if (PyType_IsSubtype(changed, reinterpret_cast<PyTypeObject*>(appended)) != 0) Py_RETURN_NONE;
    Ref<> last = Ref<>::steal(PyTuple_Pack(1, appended));
    Ref<> order = last ? Ref<>::steal(PySequence_Concat(changed->tp_mro, last.get())) : Ref<>();
    if (!order) return nullptr;
    Ref<> before = Ref<>::steal(std::exchange(changed->tp_mro, order.release()));
    PyType_Modified(changed);
    Py_RETURN_NONE;
}

PyMethodDef kFunctions[] = {
    {"append_to_mro", append_to_mro, METH_VARARGS, "(class, other): its instances are instances of the other, too."},
    {"set_wrapper_slots", set_wrapper_slots, METH_O, "Calls of instances run `forward` without Python code around it."},
    {},
};

}  // namespace

bool bind_wrapper(PyObject* module) {
    return PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator
