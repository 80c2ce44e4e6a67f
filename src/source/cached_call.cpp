#include "source/cached_call.h"

#include <vector>

#include "base/python_error.h"
#include "base/text.h"
#include "cpython/call_caches.h"
#include "cpython/tuple_hash.h"
#include "source/query.h"

namespace stator {

namespace {

/// The hash of a key in which `tensor`, if any, hashes as `id` does. No code of the program runs.
Py_hash_t hash_of_key(PyObject* key, PyObject* tensor) {
    auto hash_of = [](PyObject* object) {
        const Py_hash_t hash = PyObject_Hash(object);
        if (hash == -1) throw PythonError();
        return hash;
    };
    if (tensor == nullptr || !PyTuple_CheckExact(key)) return hash_of(key);
    std::vector<Py_hash_t> hashes;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
        PyObject* part = PyTuple_GET_ITEM(key, i);
        hashes.push_back(hash_of(part == tensor ? checked(PyLong_FromVoidPtr(tensor)).get() : part));
    }
    return cpython::hash_of_tuple(hashes);
}

/// A descriptor that reads the cached result of a call from the tensor among the arguments.
struct Lookup {
    PyDescr_COMMON;
    PyObject* cached;
    PyObject* key;  // with the descriptor itself in the place of the tensor
};

Lookup* as_lookup(PyObject* object) {
    return reinterpret_cast<Lookup*>(object);
}

Ref<> with_replaced(PyObject* key, PyObject* part, PyObject* by) {
    Ref<> made = checked(PyTuple_New(PyTuple_GET_SIZE(key)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
        PyObject* item = PyTuple_GET_ITEM(key, i);
        PyTuple_SET_ITEM(made.get(), i, Py_NewRef(item == part ? by : item));
    }
    return made;
}

PyObject* look_up_tensor(PyObject* self, PyObject* tensor, PyObject*) {
    try {
        Ref<> key = with_replaced(as_lookup(self)->key, self, tensor);
        return Py_XNewRef(
            cpython::cached_call_result(as_lookup(self)->cached, key.get(), hash_of_key(key.get(), tensor)));
    } catch (const PythonError&) {
        return nullptr;
    }
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(as_lookup(self)->cached);
    Py_VISIT(as_lookup(self)->key);
    return 0;
}

int clear(PyObject* self) {
    Py_CLEAR(as_lookup(self)->cached);
    Py_CLEAR(as_lookup(self)->key);
    return 0;
}

void deallocate(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_XDECREF(reinterpret_cast<PyObject*>(PyDescr_TYPE(self)));
    Py_XDECREF(PyDescr_NAME(self));
    type->tp_free(self);
    Py_DECREF(type);
}

PyTypeObject* lookup_class() {
    static PyType_Slot slots[] = {{Py_tp_descr_get, reinterpret_cast<void*>(look_up_tensor)},
                                  {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                  {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                  {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                                  {0, nullptr}};
    static PyType_Spec spec = {"stator.Lookup", sizeof(Lookup), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    static auto* const type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).release());
    return type;
}

Ref<> make_lookup(const CachedCallKey& key) {
    Ref<> made = checked(lookup_class()->tp_alloc(lookup_class(), 0));
    Lookup* lookup = as_lookup(made.get());
    lookup->d_common.d_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(Py_TYPE(key.tensor)));
    lookup->d_common.d_name = title_of_cached_result(key.cached).release();
    lookup->cached = Py_NewRef(key.cached);
    // In the key the descriptor would be a reference to itself: a cycle, which the garbage collector frees.
    lookup->key = with_replaced(key.key, key.tensor, made.get()).release();
    return made;
}

/// For a key without such a tensor: `argument` is the cached function and the key.
PyObject* look_up(PyObject*, PyObject* argument) {
    try {
        PyObject* key = PyTuple_GET_ITEM(argument, 1);
        PyObject* found = cpython::cached_call_result(PyTuple_GET_ITEM(argument, 0), key, hash_of_key(key, nullptr));
        if (found == nullptr) PyErr_SetNone(PyExc_LookupError);
        return Py_XNewRef(found);
    } catch (const PythonError&) {
        return nullptr;
    }
}

PyObject* is_short(PyObject*, PyObject* argument) {
    PyObject* dict = cpython::call_cache_dict(PyTuple_GET_ITEM(argument, 0));
    return PyBool_FromLong(PyDict_GET_SIZE(dict) <= PyLong_AsSsize_t(PyTuple_GET_ITEM(argument, 1)));
}

}  // namespace

Ref<> title_of_cached_result(PyObject* cached) {
    Ref<> name = Ref<>::steal(PyObject_GetAttrString(cached, "__name__"));
    if (name && PyUnicode_Check(name.get())) return checked(PyUnicode_FromFormat("<cached result of %U>", name.get()));
    PyErr_Clear();
    return checked(PyUnicode_FromString("<cached result>"));
}

CachedResult cached_result(Provenance& provenance, const CachedCallKey& key) {
    if (key.tensor != nullptr) {
        Ref<> lookup = make_lookup(key);
        PyObject* found = cpython::cached_call_result(key.cached, key.key, hash_of_key(key.key, key.tensor));
        return {provenance.child(key.tensor_source, Access::Member, lookup.get(), 0, found), Ref<>::share(found)};
    }
    static PyMethodDef definition = {"functools.lru_cache", look_up, METH_O, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    Answer answer = ask(provenance, function, checked(PyTuple_Pack(2, key.cached, key.key)).get());
    return {answer.source, std::move(answer.object)};
}

Source* holds_at_most(Provenance& provenance, PyObject* cached, Py_ssize_t count) {
    static PyMethodDef definition = {"functools.lru_cache.is_short", is_short, METH_O, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    Ref<> number = checked(PyLong_FromSsize_t(count));
    return ask(provenance, function, checked(PyTuple_Pack(2, cached, number.get())).get()).source;
}

}  // namespace stator
