#include "value/protocol/calling.h"

#include "base/python_error.h"
#include "base/text.h"
#include "value/kinds/function.h"

namespace stator {

std::string callable_title(Value* callable) {
    if (auto* method = cast<MethodValue>(callable); method != nullptr && method->function != nullptr)
        return callable_title(method->function);
    PyObject *module = nullptr, *qualname = nullptr;
    Ref<> held_module, held_name;
    if (auto* function = cast<FunctionValue>(callable); function != nullptr && function->outside == nullptr) {
        module = PyDict_GetItemString(function->globals, "__name__");
        qualname = function->code->co_qualname;
    } else if (PyObject* real = callable->object(); real != nullptr) {
        ErrorAside aside;
        held_module = Ref<>::steal(PyObject_GetAttrString(real, "__module__"));
        held_name = Ref<>::steal(PyObject_GetAttrString(real, "__qualname__"));
        PyErr_Clear();
        module = held_module.get();
        qualname = held_name.get();
    }
    if (qualname == nullptr || !PyUnicode_Check(qualname)) return callable->print();
    std::string name = std::string(utf8(qualname)) + "()";
    bool names_module = module != nullptr && PyUnicode_Check(module) && utf8(module) != "builtins";
    return names_module ? std::string(utf8(module)) + "." + name : name;
}

}  // namespace stator
