#include "cpython/hashed_items.h"

#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"

extern "C" PyObject* stator_stored_hashes(PyObject* dict);

#if PY_VERSION_HEX >= 0x030D0000
// Exported, and declared in an internal header.
extern "C" PyAPI_FUNC(int) _PyDict_SetItem_KnownHash(PyObject*, PyObject*, PyObject*, Py_hash_t);
#endif

namespace stator::cpython {

int set_item_by_hash(PyObject* dict, PyObject* key, PyObject* value, Py_hash_t hash) {
    return _PyDict_SetItem_KnownHash(dict, key, value, hash);
}

PyObject* item_without_hashing(PyObject* dict, PyObject* key) {
    PyObject* method = lookup_in_mro(Py_TYPE(key), interned("__hash__"));
    if (method == nullptr || !PyFunction_Check(method)) {
        PyObject* item = PyDict_GetItemWithError(dict, key);
        if (item == nullptr) PyErr_Clear();
        return item;
    }
    PyObject *held = nullptr, *item = nullptr;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &held, &item) != 0;)
        if (held == key) return item;
    return nullptr;
}

PyObject* entry_of(PyObject* dict, int number) {
    const int position = number / 2;
    if (!(PyDict_CheckExact(dict) || PyODict_CheckExact(dict)) || PyDict_GET_SIZE(dict) <= position) return nullptr;
    // The order is in the linked list of an OrderedDict, not in its hash table.
    Ref<> keys = Ref<>::steal(Py_TYPE(dict)->tp_iter(dict)), key;
    for (int i = 0; keys && i <= position; ++i) key = Ref<>::steal(Py_TYPE(keys.get())->tp_iternext(keys.get()));
    if (!key) PyErr_Clear();
    if (!key || !PyLong_CheckExact(key.get())) return nullptr;
    PyObject* item = number % 2 == 0 ? key.get() : PyDict_GetItemWithError(dict, key.get());
    return item;  // the dict holds both
}

PyObject* stored_hashes_function() {
    static PyMethodDef definition{"stored_hashes", [](PyObject*, PyObject* dict) { return stator_stored_hashes(dict); },
                                  METH_O, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    return function;
}

}  // namespace stator::cpython
