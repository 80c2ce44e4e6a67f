#include "cpython/versions.h"

#include "base/ref.h"

namespace stator::cpython {

#if PY_VERSION_HEX >= 0x030D0000

bool make_versioned(PyObject* dict) {
    if (dict_version(dict) != 0) return true;
    if (!PyDict_CheckExact(dict)) return false;  // its `popitem` may be overridden
    // Removing the last item makes CPython give the dictionary its own table; inserted again, the item is the last one
    // again.
    static PyObject* const popitem = PyUnicode_InternFromString("popitem");
    Ref<> item = Ref<>::steal(PyObject_CallMethodNoArgs(dict, popitem));
    if (!item || PyDict_SetItem(dict, PyTuple_GET_ITEM(item.get(), 0), PyTuple_GET_ITEM(item.get(), 1)) < 0)
        PyErr_Clear();
    return dict_version(dict) != 0;
}

#else

bool make_versioned(PyObject*) {
    return true;
}

#endif

namespace {

void assign_type_version(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
    PyUnstable_Type_AssignVersionTag(type);
#else
    // A lookup assigns a version, for CPython's own cache.
    static PyObject* const name = PyUnicode_InternFromString("__class__");
    _PyType_Lookup(type, name);
#endif
}

}  // namespace

std::uint32_t type_version(PyTypeObject* type) {
    if (std::uint32_t version = current_type_version(type)) [[likely]]
        return version;
    assign_type_version(type);
    return current_type_version(type);
}

}  // namespace stator::cpython
