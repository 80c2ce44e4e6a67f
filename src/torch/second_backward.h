/// Double backward of functions that aot_autograd compiled. These can be differentiated only once: a recorded backward
/// pass (`create_graph=True`) would return gradients without a history, and derivatives of those would silently miss
/// terms.
#pragma once

#include <Python.h>

#include <span>

namespace stator::torch_room {

/// Whether it is a tensor that requires grad.
bool requires_gradient(PyObject* object);

/// `results` were computed from `inputs` by compiled code, with gradients recorded. A recorded backward pass through
/// them then computes its gradients with `run(*inputs)`, which computes the same by operations that autograd supports.
/// `run` may be null: then the gradients raise when they are differentiated. Keeps the inputs alive until the first
/// backward pass without `retain_graph`. Does nothing for results of other code.
void allow_second_backward(std::span<PyObject* const> results, std::span<PyObject* const> inputs, PyObject* run);

}  // namespace stator::torch_room
