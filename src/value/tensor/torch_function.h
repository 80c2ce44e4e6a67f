/// `__torch_function__`: tensor subclasses that define operations on them. PyTorch calls it from C code. It is traced
/// like any other function; if it breaks the graph, the whole operation is executed.
#pragma once

#include "value/tracer.h"

namespace stator {

struct TensorObjectValue;

/// Whether a value is a tensor for which PyTorch would now call a `__torch_function__`.
bool has_a_say(Tracer& tracer, Value* value);
/// Whether tensors of this class are supported: the class has only a `__torch_function__` and attributes.
bool is_followed_class(PyTypeObject* type);
/// Whether one of the arguments, or an item of a list or tuple among them, is an instance of a tensor subclass.
bool has_tensor_object(const Arguments& arguments);

/// A call of a PyTorch function or method written in C with such arguments.
Outcome call_on_tensor_objects(Tracer& tracer, Value* function, const Arguments& arguments);
/// The same for one written in Python, which calls `has_torch_function` itself.
Outcome call_python_on_tensor_objects(Tracer& tracer, FunctionValue* function, const Arguments& arguments);
/// `tensor.name` for an attribute that C code computes.
Outcome attribute_of_tensor_object(Tracer& tracer, TensorObjectValue* tensor, Borrowed<> name);
/// `getter(tensor)` for the getter of such an attribute, as `__torch_function__` receives it. Null for anything else.
Value* read_by_getter(Tracer& tracer, PyObject* getter, const Arguments& arguments);

/// The special method through which a plain tensor calls the `__torch_function__` of the other operand; null if that
/// has none.
Value* method_that_asks(Tracer& tracer, Value* self, Value* other, const char* name);
/// If a result is the plain tensor of an argument, returns that argument.
Value* with_its_object(Value* result, const Arguments& arguments);

}  // namespace stator
