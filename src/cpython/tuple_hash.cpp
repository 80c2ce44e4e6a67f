#include "cpython/tuple_hash.h"

#include "base/python_error.h"
#include "base/ref.h"

namespace stator::cpython {

namespace {

/// An object with a given hash.
struct Hashed {
    PyObject_HEAD Py_hash_t hash;
};

PyTypeObject* hashed_class() {
    static PyType_Slot slots[] = {
        {Py_tp_hash, reinterpret_cast<void*>(+[](PyObject* self) { return reinterpret_cast<Hashed*>(self)->hash; })},
        {0, nullptr}};
    static PyType_Spec spec = {"stator.Hashed", sizeof(Hashed), 0, Py_TPFLAGS_DEFAULT, slots};
    static PyObject* const made = checked(PyType_FromSpec(&spec)).release();
    return reinterpret_cast<PyTypeObject*>(made);
}

}  // namespace

Py_hash_t hash_of_tuple(std::span<const Py_hash_t> hashes) {
    Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(hashes.size())));
    for (std::size_t i = 0; i < hashes.size(); ++i) {
        Ref<> item = checked(PyType_GenericAlloc(hashed_class(), 0));
        reinterpret_cast<Hashed*>(item.get())->hash = hashes[i];
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    return PyObject_Hash(tuple.get());
}

}  // namespace stator::cpython
