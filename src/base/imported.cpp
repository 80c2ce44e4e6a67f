#include "base/imported.h"

#include "base/python_error.h"

namespace stator {

PyObject* imported(const char* module, const char* name) {
    Ref<> found = checked(PyImport_ImportModule(module));
    return checked(PyObject_GetAttrString(found.get(), name)).release();
}

PyTypeObject* imported_class(const char* module, const char* name) {
    return reinterpret_cast<PyTypeObject*>(imported(module, name));
}

}  // namespace stator
