/* The hashes that a dict has stored for its keys. In C: the headers of CPython's dicts are not C++. */
#define Py_BUILD_CORE 1
#include <Python.h>
#undef _PyGC_FINALIZED
#include <internal/pycore_dict.h>
#undef Py_BUILD_CORE

PyObject* stator_stored_hashes(PyObject* dict) {
    const PyDictObject* real = (const PyDictObject*)dict;
    PyDictKeysObject* keys = real->ma_keys;
    /* Other tables have only strings as keys, which run no code. */
    if (real->ma_values != NULL || DK_IS_UNICODE(keys)) Py_RETURN_NONE;
    PyObject* hashes = PyBytes_FromStringAndSize(NULL, PyDict_GET_SIZE(dict) * (Py_ssize_t)sizeof(Py_hash_t));
    if (hashes == NULL) return NULL;
    const PyDictKeyEntry* entries = DK_ENTRIES(keys);
    char* to = PyBytes_AS_STRING(hashes);
    for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i) {
        if (entries[i].me_value == NULL) continue;
        memcpy(to, &entries[i].me_hash, sizeof(Py_hash_t));
        to += sizeof(Py_hash_t);
    }
    return hashes;
}
