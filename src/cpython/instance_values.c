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

// The position of a name in the keys of a type; -1 if it is not there. As the look-up of CPython, which is not
// exported.
static Py_ssize_t position_of(PyDictKeysObject* keys, PyObject* name) {
    PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(keys);
    // Such keys are few, so an index has one byte.
    if (keys->dk_log2_index_bytes != keys->dk_log2_size) {
        for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i)
            if (entries[i].me_key != NULL && same_name(entries[i].me_key, name)) return i;
        return -1;
    }
    const Py_hash_t hash = PyObject_Hash(name);
    const int8_t* indices = (const int8_t*)keys->dk_indices;
    const size_t mask = ((size_t)1 << keys->dk_log2_size) - 1;
    size_t perturb = (size_t)hash;
    for (size_t i = perturb & mask;; perturb >>= 5, i = (i * 5 + perturb + 1) & mask) {
        const int8_t index = indices[i];
        if (index == DKIX_EMPTY) return -1;
        if (index < 0) continue;
        PyObject* key = entries[index].me_key;
        if (key == name) return index;
        if (key != NULL && ((PyASCIIObject*)key)->hash == hash && PyUnicode_Compare(key, name) == 0) return index;
    }
}

PyObject* stator_instance_attribute(PyObject* object, PyObject* name) {
    PyObject* dict;
    if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0) {
        PyDictValues* values;
        dict = managed_dict(object, &values);
        if (values != NULL) {
            PyDictKeysObject* keys = ((PyHeapTypeObject*)Py_TYPE(object))->ht_cached_keys;
            const Py_ssize_t position = position_of(keys, name);
            return position < 0 ? NULL : values->values[position];
        }
    } else {
        dict = stator_dict_if_made(object);
    }
    if (dict == NULL) return NULL;
    PyObject* value = PyDict_GetItemWithError(dict, name);
    if (value == NULL) PyErr_Clear();
    return value;
}
