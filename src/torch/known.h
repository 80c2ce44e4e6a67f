/// Objects of PyTorch that the tracer recognizes by identity. Looked up once, never freed.
#pragma once

#include <Python.h>

namespace stator::torch_room {

struct Known {
    PyTypeObject* module_class;      // torch.nn.Module
    PyObject* module_getattr;        // torch.nn.Module.__getattr__
    PyObject* module_call;           // torch.nn.Module.__call__
    PyObject* module_call_impl;      // torch.nn.Module._call_impl
    PyObject* module_setattr;        // torch.nn.Module.__setattr__
    PyTypeObject* tensor_class;      // torch.Tensor
    PyTypeObject* legacy_metaclass;  // of torch.FloatTensor and the like
    PyTypeObject* dtype_class;
    PyTypeObject* device_class;
    PyTypeObject* layout_class;
    PyTypeObject* memory_format_class;
    PyTypeObject* size_class;
    PyTypeObject* generator_class;
    PyTypeObject* enum_class;    // enum.Enum
    PyObject* set_grad_enabled;  // torch._C._set_grad_enabled
};

const Known& known();

/// What a trace does with a callable of PyTorch.
enum class Role {
#define ROLE(name, words) name,
#include "torch/roles.def"
#undef ROLE
};

/// For a C function or a Python function of PyTorch.
Role role_of(PyObject* callable);
/// If the function is `_init_group` of one of PyTorch's optimizers, which makes the state of a group of parameters: the
/// same function without the `torch.compiler.disable` that PyTorch has put around it for TorchDynamo, which does not
/// trace it. Null for all other functions.
PyObject* optimizer_initialization(PyObject* function);
/// Whether the program has put the function into graphs: `allow_in_graph`, `nonstrict_trace`.
bool is_marked_in_graph(PyObject* function);
/// Whether it did so with `torch._dynamo.nonstrict_trace`.
bool is_nonstrict(PyObject* function);

}  // namespace stator::torch_room
