#include "cpython/weak.h"

namespace stator::cpython {

Ref<> weak_target(PyObject* weak_reference) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* target = nullptr;
    if (PyWeakref_GetRef(weak_reference, &target) < 0) PyErr_Clear();
    return Ref<>::steal(target);
#else
    PyObject* target = PyWeakref_GET_OBJECT(weak_reference);
    return target == Py_None ? Ref<>() : Ref<>::share(target);
#endif
}

Borrowed<> referent_or_none(PyObject* weak_reference) {
    Ref<> target = weak_target(weak_reference);
    return target ? target.get() : Py_None;
}

}  // namespace stator::cpython
