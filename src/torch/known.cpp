#include "torch/known.h"

#include <cstring>
#include <string_view>
#include <unordered_map>

#include "base/check.h"
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"

namespace stator::torch_room {

namespace {

Known look_up() {
    Known known{};
    known.module_class = imported_class("torch.nn", "Module");
    known.module_getattr = PyObject_GetAttrString(reinterpret_cast<PyObject*>(known.module_class), "__getattr__");
    known.module_call = PyObject_GetAttrString(reinterpret_cast<PyObject*>(known.module_class), "__call__");
    known.module_call_impl = PyObject_GetAttrString(reinterpret_cast<PyObject*>(known.module_class), "_call_impl");
    known.module_setattr = PyObject_GetAttrString(reinterpret_cast<PyObject*>(known.module_class), "__setattr__");
    known.tensor_class = imported_class("torch", "Tensor");
    known.legacy_metaclass = Py_TYPE(imported("torch", "FloatTensor"));
    known.dtype_class = imported_class("torch", "dtype");
    known.device_class = imported_class("torch", "device");
    known.layout_class = imported_class("torch", "layout");
    known.memory_format_class = imported_class("torch", "memory_format");
    known.size_class = imported_class("torch", "Size");
    known.generator_class = imported_class("torch", "Generator");
    known.enum_class = imported_class("enum", "Enum");
    known.set_grad_enabled = imported("torch._C", "_set_grad_enabled");
    return known;
}

}  // namespace

const Known& known() {
    static const Known objects = look_up();
    return objects;
}

}  // namespace stator::torch_room
