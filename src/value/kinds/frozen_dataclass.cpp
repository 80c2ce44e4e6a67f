#include "value/kinds/frozen_dataclass.h"

#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "value/kinds/object.h"
#include "value/tracer.h"

namespace stator {

bool is_frozen_dataclass(PyTypeObject* type) {
    PyObject* settings = cpython::lookup_in_mro(type, interned("__dataclass_params__"), nullptr);
    Ref<> frozen = settings == nullptr ? Ref<>() : Ref<>::steal(PyObject_GetAttrString(settings, "frozen"));
    PyErr_Clear();
    return frozen.get() == Py_True;
}

Ref<> copy_of_frozen(Tracer& tracer, Value* value) {
    auto* object = cast<ObjectValue>(value);
    if (object == nullptr || object->source != nullptr || object->own_dict != nullptr ||
        !is_frozen_dataclass(object->class_))
        return {};
    Ref<> copy = checked(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__new__", "O",
                                             reinterpret_cast<PyObject*>(object->class_)));
    for (auto& [name, held] : object->attributes) {
        if (held == nullptr) continue;
        Ref<> constant = held->as_constant(tracer);
        if (!constant) constant = copy_of_frozen(tracer, held);
        if (!constant) return {};
        if (PyObject_GenericSetAttr(copy.get(), name, constant.get()) != 0) throw PythonError();
    }
    return copy;
}

}  // namespace stator
