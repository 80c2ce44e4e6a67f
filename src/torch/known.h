/// Objects of PyTorch that the tracer knows by identity. Looked up once, kept for ever.
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

/// How a callable of PyTorch takes part in a trace.
enum class Role {
    None,          // nothing special: inlined if it is a Python function, else unknown
    InGraph,       // becomes a node
    TensorMethod,  // a method of tensors written in Python: becomes a node by its name
    Disallowed,    // the user, or torch._dynamo, says that it must not be in a graph: a break
    IsCompiling,   // true in a trace
    Bookkeeping,   // torch._dynamo's own notes on what the program does: nothing to the program
};

/// Of a C function or a Python function that belongs to PyTorch.
Role role_of(PyObject* callable);

}  // namespace stator::torch_room
