#include "effect/iterable_of.h"

#include "base/python_error.h"

namespace stator {

namespace {

struct IterableOf {
    PyObject_HEAD PyObject* iterator;
};

PyObject*& held(PyObject* self) {
    return reinterpret_cast<IterableOf*>(self)->iterator;
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) {
    PyObject* iterator = nullptr;
    if (!PyArg_ParseTuple(arguments, "O", &iterator)) return nullptr;
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) held(self) = Py_NewRef(iterator);
    return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(held(self));
    return 0;
}

int clear(PyObject* self) {
    Py_CLEAR(held(self));
    return 0;
}

void deallocate(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(held(self));
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* iterate(PyObject* self) {
    return Py_NewRef(held(self));
}

}  // namespace

PyObject* iterable_of_class() {
    static PyObject* const type = [] {
        static PyType_Slot slots[] = {
            {Py_tp_new, reinterpret_cast<void*>(make)},     {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
            {Py_tp_clear, reinterpret_cast<void*>(clear)},  {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
            {Py_tp_iter, reinterpret_cast<void*>(iterate)}, {0, nullptr},
        };
        static PyType_Spec spec = {"stator.IterableOf", sizeof(IterableOf), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                   slots};
        return checked(PyType_FromSpec(&spec)).release();
    }();
    return type;
}

}  // namespace stator
