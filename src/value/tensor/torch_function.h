/// `__torch_function__`, by which a tensor subclass overrides operations.
///
/// C code of PyTorch calls it. It is traced like any other function of the program; if it breaks the graph, the graph
/// breaks before the operation that called it.
#pragma once

#include <optional>

#include "value/tracer.h"

namespace stator {

struct TensorObjectValue;

/// Whether a value is a tensor, or another object, whose class has a `__torch_function__`, and those are not disabled
/// at this point.
bool has_active_torch_function(Tracer& tracer, Value* value);
/// Whether the `__torch_function__` of a class is a plain method, with which PyTorch calls the instance. It warns of
/// that once in a process.
bool has_method_torch_function(PyTypeObject* type);
/// Whether tensors of this subclass are traced: it may have a `__torch_function__` and attributes, but nothing else
/// that changes what operations do.
bool is_followed_class(PyTypeObject* type);
/// Whether there is a tensor of a subclass, or another object with a `__torch_function__`, among the arguments or in a
/// list or tuple among them.
bool has_tensor_object(const Arguments& arguments);

/// Calls a C function or method of PyTorch on such tensors.
Outcome call_on_tensor_objects(Tracer& tracer, Value* function, const Arguments& arguments);
/// The same for a Python function, which calls `__torch_function__` itself.
Outcome call_python_on_tensor_objects(Tracer& tracer, FunctionValue* function, const Arguments& arguments);
/// `tensor.name` for an attribute that C code computes.
Outcome attribute_of_tensor_object(Tracer& tracer, TensorObjectValue* tensor, Borrowed<> name);
/// `getter(tensor)`, for the getter of such an attribute, which a `__torch_function__` gets as `func`. Nothing for any
/// other object.
std::optional<Outcome> read_by_getter(Tracer& tracer, PyObject* getter, const Arguments& arguments);

/// The special method of a plain tensor if the other operand has an active `__torch_function__`; else null.
Value* method_calling_torch_function(Tracer& tracer, Value* self, Value* other, const char* name);
/// The argument whose inner tensor is `result`, if there is one; else `result`.
Value* with_its_object(Value* result, const Arguments& arguments);

}  // namespace stator
