/// Gradients of gradients, through what aot_autograd compiled. That can be differentiated once: a backward pass that is
/// itself recorded (`create_graph=True`) would give gradients without a history, and what is computed from those would
/// miss terms without a word.
#pragma once

#include <Python.h>

#include <span>

namespace stator::torch_room {

/// Whether it is a tensor that requires a gradient.
bool requires_gradient(PyObject* object);

/// `results` are what compiled code made of `inputs`, with gradients recorded. From here on a recorded backward pass
/// through them takes its gradients from `run(*inputs)`, which computes the same by operations that autograd knows, and
/// may be null if nothing does. Where it can't, the gradients raise when they are differentiated. Keeps the inputs
/// until the first backward pass that does not keep its graph. Does nothing for results of other code.
void allow_second_backward(std::span<PyObject* const> results, std::span<PyObject* const> inputs, PyObject* run);

}  // namespace stator::torch_room
