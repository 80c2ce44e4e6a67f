#include "cpython/hashed_items.h"

#if PY_VERSION_HEX >= 0x030D0000
// Exported, and declared in an internal header.
extern "C" PyAPI_FUNC(int) _PyDict_SetItem_KnownHash(PyObject*, PyObject*, PyObject*, Py_hash_t);
#endif

namespace stator::cpython {

int set_item_by_hash(PyObject* dict, PyObject* key, PyObject* value, Py_hash_t hash) {
    return _PyDict_SetItem_KnownHash(dict, key, value, hash);
}

}  // namespace stator::cpython
