#include "torch/library_code.h"

#include <string_view>

#include "base/names.h"
#include "base/python_error.h"
#include "base/ref.h"
#include "base/text.h"
#include "torch/known.h"

namespace stator::torch_room {

namespace {

std::string_view module_of(PyObject* globals) {
    PyObject* const name = globals == nullptr ? nullptr : PyDict_GetItemWithError(globals, interned("__name__"));
    return name == nullptr || !PyUnicode_Check(name) ? std::string_view() : utf8(name);
}

bool is_of_standard_library(std::string_view module) {
    static PyObject* const names = Py_XNewRef(PySys_GetObject("stdlib_module_names"));
    if (names == nullptr || !PyAnySet_Check(names) || module == "__main__") return false;
    const std::string_view top = module.substr(0, module.find('.'));
    Ref<> name = Ref<>::steal(PyUnicode_FromStringAndSize(top.data(), static_cast<Py_ssize_t>(top.size())));
    const bool is_one = name && PySet_Contains(names, name.get()) == 1;
    PyErr_Clear();
    return is_one;
}

}  // namespace

bool communicates(PyObject* globals) {
    const std::string_view module = module_of(globals);
    if (module.starts_with("torch.nn.parallel.")) return true;
    if (!module.starts_with("torch.distributed.")) return false;
    for (std::string_view captured :
         {"torch.distributed.tensor", "torch.distributed.device_mesh", "torch.distributed._functional_collectives"})
        if (module.starts_with(captured)) return false;
    // The wrapper of a module for activation checkpoints computes only.
    return module != "torch.distributed.algorithms._checkpoint.checkpoint_wrapper";
}

bool is_library_code(PyObject* globals, PyCodeObject* code) {
    const std::string_view module = module_of(globals);
    // (The models of PyTorch's own tests are programs.)
    if (module.starts_with("torch.testing.")) return false;
    if (module.starts_with("torch.nn.modules."))
        return utf8(code->co_name) != "forward" &&
               code != reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(known().module_call));
    // (A lazy import runs decorators of that package.)
    if (module == "typing_extensions") return true;
    return module == "torch" || module.starts_with("torch.") || is_of_standard_library(module);
}

bool calls_forward_and_hooks(PyObject* globals, PyCodeObject* code) {
    if (module_of(globals) != "torch.nn.modules.module") return false;
    const std::string_view name = utf8(code->co_qualname);
    return name.starts_with("Module._call_impl") || name == "Module._wrapped_call_impl";
}

}  // namespace stator::torch_room
