#include "value/kinds/container_effects.h"

#include "cpython/objects.h"

namespace stator {

Effect method_effect(PyTypeObject* type, const char* method, std::vector<Value*> from) {
    PyObject* descriptor = PyDict_GetItemString(cpython::class_dict(type), method);
    STATOR_CHECK(descriptor != nullptr, "the builtin class has no such method");
    return {PlanOp::Call, std::move(from), descriptor};
}

}  // namespace stator
