/// Functions of PyTorch that communicate between processes, and of the libraries below them. torch._dynamo skips their
/// frames: they call C functions that act on state outside of the program (reducers, process groups, streams), and
/// around these they call modules of the program.
#pragma once

#include <Python.h>

namespace stator::torch_room {

/// Whether the function with these globals is of a module that communicates: the wrappers of modules
/// (DistributedDataParallel, fully_shard) and eager collectives. DTensors and functional collectives are not: they are
/// captured.
bool communicates(PyObject* globals);

/// Whether the function with these globals is of PyTorch or of Python's standard library. The `forward` of PyTorch's
/// modules does not count: it computes for the program.
bool is_library_code(PyObject* globals, PyCodeObject* code);

/// Whether it is the code of `torch.nn.Module` that calls `forward` and hooks.
bool calls_forward_and_hooks(PyObject* globals, PyCodeObject* code);

}  // namespace stator::torch_room
