/// Gradients of gradients of functions that aot_autograd compiled. These can be differentiated once: a recorded
/// backward pass (`create_graph=True`) would give gradients without a history, and derivatives of those would
/// silently miss terms.
#pragma once

#include <Python.h>

#include <span>

namespace stator::torch_room {

/// Whether it is a tensor that requires a gradient.
bool requires_gradient(PyObject* object);

/// `results` are what compiled code computed from `inputs`, with gradients recorded. A recorded backward pass through
/// them then takes its gradients from `run(*inputs)`, which computes the same by operations that autograd supports.
/// `run` may be null: then the gradients raise when they are differentiated. Keeps the inputs alive
/// until the first backward pass without `retain_graph`. Does nothing for results of other code.
void allow_second_backward(std::span<PyObject* const> results, std::span<PyObject* const> inputs, PyObject* run);

}  // namespace stator::torch_room
