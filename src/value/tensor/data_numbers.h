/// Numbers that are read from the data of tensors, and the functions of PyTorch for them: the graph computes them, and
/// nobody knows them while tracing.
#pragma once

#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

/// `tensor.item()`, or `__int__`, `__float__`, `__index__`. Null where it is not captured.
Value* read_number(Tracer& tracer, TensorValue* tensor, std::string_view method);
/// `tensor.tolist()`. Null where it is not captured.
Value* read_list(Tracer& tracer, TensorValue* tensor);

/// Whether a number or bool that only the graph knows is among the arguments.
bool has_data_number(const Arguments& arguments);
/// A call of a Python function with such an argument, if it is one of PyTorch's functions for them: `torch._check`,
/// `torch.sym_max`, `guard_or_false`. Null for other functions.
Value* call_on_data_numbers(Tracer& tracer, Borrowed<> function, const Arguments& arguments);

}  // namespace stator
