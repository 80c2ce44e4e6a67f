#include "torch/known.h"

#include <cstring>
#include <string_view>
#include <unordered_map>

#include "base/check.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"

namespace stator::torch_room {

namespace {

/// `torch.nn.Module` for "torch.nn", "Module". Never freed.
PyObject* find(const char* module, const char* name) {
    Ref<> found = checked(PyImport_ImportModule(module));
    return checked(PyObject_GetAttrString(found.get(), name)).release();
}

PyTypeObject* find_class(const char* module, const char* name) {
    return reinterpret_cast<PyTypeObject*>(find(module, name));
}

Known look_up() {
    Known known{};
    known.module_class = find_class("torch.nn", "Module");
    known.module_getattr = PyObject_GetAttrString(reinterpret_cast<PyObject*>(known.module_class), "__getattr__");
    known.module_call = PyObject_GetAttrString(reinterpret_cast<PyObject*>(known.module_class), "__call__");
    known.module_call_impl = PyObject_GetAttrString(reinterpret_cast<PyObject*>(known.module_class), "_call_impl");
    known.module_setattr = PyObject_GetAttrString(reinterpret_cast<PyObject*>(known.module_class), "__setattr__");
    known.tensor_class = find_class("torch", "Tensor");
    known.legacy_metaclass = Py_TYPE(find("torch", "FloatTensor"));
    known.dtype_class = find_class("torch", "dtype");
    known.device_class = find_class("torch", "device");
    known.layout_class = find_class("torch", "layout");
    known.memory_format_class = find_class("torch", "memory_format");
    known.size_class = find_class("torch", "Size");
    known.generator_class = find_class("torch", "Generator");
    known.enum_class = find_class("enum", "Enum");
    known.set_grad_enabled = find("torch._C", "_set_grad_enabled");
    return known;
}

}  // namespace

const Known& known() {
    static const Known objects = look_up();
    return objects;
}

}  // namespace stator::torch_room
