#include "module/compiled_coroutine.h"

#include <structmember.h>

#include "base/ref.h"
#include "cpython/coroutines.h"
#include "module/make_module.h"
#include "run/frame_run.h"

namespace stator {

namespace {

struct CoroutineObject {
    PyObject_HEAD PyObject* coroutine;
    PyObject* compiled;
    PyObject* weak_references;
};

PyObject* coroutine_of(PyObject* self) {
    return reinterpret_cast<CoroutineObject*>(self)->coroutine;
}

PySendResult send(PyObject* self, PyObject* value, PyObject** result) {
    auto* object = reinterpret_cast<CoroutineObject*>(self);
    // The coroutine may drop the last reference to this object.
    Ref<> coroutine = Ref<>::share(object->coroutine), compiled = Ref<>::share(object->compiled);
    return send_captured(*reinterpret_cast<CompiledObject*>(compiled.get())->cache, coroutine.get(), value, result);
}

PyObject* ended_with(PyObject* returned) {
    Ref<> value = Ref<>::steal(returned);
    Ref<> stop = Ref<>::steal(value.get() == Py_None ? PyObject_CallNoArgs(PyExc_StopIteration)
                                                     : PyObject_CallOneArg(PyExc_StopIteration, value.get()));
    if (stop) PyErr_SetObject(PyExc_StopIteration, stop.get());
    return nullptr;
}

PyObject* send_method(PyObject* self, PyObject* value) {
    PyObject* result = nullptr;
    return send(self, value, &result) == PYGEN_RETURN ? ended_with(result) : result;
}

PyObject* next(PyObject* self) {
    return send_method(self, Py_None);
}

PyObject* await(PyObject* self) {
    Ref<> waits_for = Ref<>::steal(PyObject_GetAttrString(coroutine_of(self), "cr_await"));
    if (!waits_for) return nullptr;
    if (waits_for.get() == Py_None) return Py_NewRef(self);
    return PyErr_Format(PyExc_RuntimeError, "coroutine is being awaited already");
}

PyObject* throw_into(PyObject* self, PyObject* arguments) {
    Ref<> method = Ref<>::steal(PyObject_GetAttrString(coroutine_of(self), "throw"));
    return method ? PyObject_Call(method.get(), arguments, nullptr) : nullptr;
}

PyObject* close(PyObject* self, PyObject*) {
    return PyObject_CallMethod(coroutine_of(self), "close", nullptr);
}

PyObject* represent(PyObject* self) {
    return PyObject_Repr(coroutine_of(self));
}

PyObject* get_class(PyObject*, void*) {
    return Py_NewRef(reinterpret_cast<PyObject*>(&PyCoro_Type));
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
    PyObject* own = PyObject_GenericGetAttr(self, name);
    if (own != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return own;
    PyErr_Clear();
    return PyObject_GetAttr(coroutine_of(self), name);
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
    return PyObject_SetAttr(coroutine_of(self), name, value);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    auto* object = reinterpret_cast<CoroutineObject*>(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(object->coroutine);
    Py_VISIT(object->compiled);
    return 0;
}

void destroy(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    auto* object = reinterpret_cast<CoroutineObject*>(self);
    if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
    // (As for generators, finalizers break cycles, by closing the coroutine.)
    Py_XDECREF(object->coroutine);
    Py_XDECREF(object->compiled);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef kMethods[] = {
    {"send", send_method, METH_O, "As `send` of the coroutine."},
    {"throw", throw_into, METH_VARARGS, "As `throw` of the coroutine; this step runs uncompiled."},
    {"close", close, METH_NOARGS, "As `close` of the coroutine."},
    {},
};

PyMemberDef kMembers[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CoroutineObject, weak_references), READONLY, nullptr},
    {},
};

PyGetSetDef kGetters[] = {{"__class__", get_class, nullptr, nullptr, nullptr}, {}};

PyType_Slot kSlots[] = {
    {Py_tp_doc, const_cast<char*>("A coroutine of a compiled function.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
    {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
    {Py_tp_iternext, reinterpret_cast<void*>(next)},
    {Py_am_await, reinterpret_cast<void*>(await)},
    {Py_am_send, reinterpret_cast<void*>(send)},
    {Py_tp_members, kMembers},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kGetters},
    {0, nullptr},
};

PyType_Spec kSpec = {
    "stator._C.Coroutine",
    sizeof(CoroutineObject),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    kSlots,
};

PyTypeObject* coroutine_type = nullptr;

}  // namespace

PyObject* with_captured_steps(CompiledObject* compiled, PyObject* coroutine) {
    if (coroutine == nullptr || !PyCoro_CheckExact(coroutine)) return coroutine;
    Ref<> held = Ref<>::steal(coroutine);
    PyObject* self = coroutine_type->tp_alloc(coroutine_type, 0);
    if (self == nullptr) return nullptr;
    auto* object = reinterpret_cast<CoroutineObject*>(self);
    object->coroutine = held.release();
    object->compiled = Py_NewRef(reinterpret_cast<PyObject*>(compiled));
    return self;
}

bool bind_coroutine(PyObject* module) {
    coroutine_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kSpec));
    return coroutine_type != nullptr &&
           PyModule_AddObjectRef(module, "Coroutine", reinterpret_cast<PyObject*>(coroutine_type)) == 0;
}

}  // namespace stator
