// Attributes that an instance keeps in an array, with the names in its type. The headers only compile as C.
#define Py_BUILD_CORE 1
#include <Python.h>

#undef _PyGC_FINALIZED
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>

// The dictionary of an object whose type has managed ones (null if none is made), and the array it may have instead.
static PyObject* managed_dict(PyObject* object, PyDictValues** values) {
    *values = NULL;
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* dict = (PyObject*)_PyObject_GetManagedDict(object);
    if (dict == NULL && (Py_TYPE(object)->tp_flags & Py_TPFLAGS_INLINE_VALUES) != 0) {
        PyDictValues* inline_values = _PyObject_InlineValues(object);
        if (inline_values->valid) *values = inline_values;
    }
    return dict;
#elif PY_VERSION_HEX >= 0x030C0000
    PyDictOrValues either = *_PyObject_DictOrValuesPointer(object);
    if (!_PyDictOrValues_IsValues(either)) return _PyDictOrValues_GetDict(either);
    *values = _PyDictOrValues_GetValues(either);
    return NULL;
#else
    *values = *_PyObject_ValuesPointer(object);
    return *values == NULL ? *_PyObject_ManagedDictPointer(object) : NULL;
#endif
}

// Null without an exception if there is none.
PyObject* stator_dict_if_made(PyObject* object) {
    if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0) {
        PyDictValues* values;
        return managed_dict(object, &values);
    }
    PyObject** slot = _PyObject_GetDictPtr(object);
    return slot == NULL ? NULL : *slot;
}

// 0 if the offset differs between objects of one type.
Py_ssize_t stator_dict_offset(PyObject* object) {
    if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0) {
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
        return (char*)_PyObject_DictOrValuesPointer(object) - (char*)object;
#else
        return (char*)_PyObject_ManagedDictPointer(object) - (char*)object;
#endif
    }
    Py_ssize_t offset = Py_TYPE(object)->tp_dictoffset;
    return offset > 0 ? offset : 0;
}

// Names in keys that types share are exact strings, and nearly always interned.
static int same_name(PyObject* left, PyObject* right) {
    return left == right || (!PyUnicode_CHECK_INTERNED(right) && PyUnicode_Compare(left, right) == 0);
}

// The index of an interned name in the keys of a type; -1 if it is not found as the same object. As the look-up of
// CPython, which is not exported. Such keys are few, so indices have one byte.
static Py_ssize_t index_of_interned(PyDictKeysObject* keys, PyObject* name) {
    const Py_hash_t hash = ((PyASCIIObject*)name)->hash;
    if (hash == -1 || keys->dk_log2_index_bytes != keys->dk_log2_size) return -1;
    const int8_t* indices = (const int8_t*)keys->dk_indices;
    const size_t mask = ((size_t)1 << keys->dk_log2_size) - 1;
    size_t perturb = (size_t)hash;
    for (size_t i = perturb & mask;; perturb >>= 5, i = (i * 5 + perturb + 1) & mask) {
        const int8_t index = indices[i];
        if (index == DKIX_EMPTY) return -1;
        if (index >= 0 && DK_UNICODE_ENTRIES(keys)[index].me_key == name) return index;
    }
}

PyObject* stator_instance_attribute(PyObject* object, PyObject* name) {
    PyObject* dict;
    if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0) {
        PyDictValues* values;
        dict = managed_dict(object, &values);
        if (values != NULL) {
            PyDictKeysObject* keys = ((PyHeapTypeObject*)Py_TYPE(object))->ht_cached_keys;
            const Py_ssize_t found = index_of_interned(keys, name);
            if (found >= 0) return values->values[found];
            PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(keys);
            for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i)
                if (entries[i].me_key != NULL && same_name(entries[i].me_key, name)) return values->values[i];
            return NULL;
        }
    } else {
        dict = stator_dict_if_made(object);
    }
    if (dict == NULL) return NULL;
    PyObject* value = PyDict_GetItemWithError(dict, name);
    if (value == NULL) PyErr_Clear();
    return value;
}
