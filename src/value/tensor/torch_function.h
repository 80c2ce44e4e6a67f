/// `__torch_function__`: how a class of tensors decides what operations on them do.
///
/// PyTorch asks it from C code. It is traced like any other function of the program; where it does not end, the whole
/// operation runs for real.
#pragma once

#include "value/tracer.h"

namespace stator {

struct TensorObjectValue;

/// Whether a value is a tensor whose class is asked, at this point of the program, what becomes of an operation.
bool has_a_say(Tracer& tracer, Value* value);
/// Whether tensors of this class are followed: they differ from others in their `__torch_function__` and in attributes.
bool is_followed_class(PyTypeObject* type);
/// Whether one of the arguments, or of what a list or tuple among them holds, is a tensor of a class of the program's.
bool has_tensor_object(const Arguments& arguments);

/// A call of a function or method of PyTorch, written in C, on such tensors.
Outcome call_on_tensor_objects(Tracer& tracer, Value* function, const Arguments& arguments);
/// The same for one written in Python, which asks by itself.
Outcome call_python_on_tensor_objects(Tracer& tracer, FunctionValue* function, const Arguments& arguments);
/// `tensor.name`, for an attribute that C code computes.
Outcome attribute_of_tensor_object(Tracer& tracer, TensorObjectValue* tensor, Borrowed<> name);
/// `getter(tensor)`, for the getter of such an attribute: what a `__torch_function__` gets for it. Null for anything
/// else.
Value* read_by_getter(Tracer& tracer, PyObject* getter, const Arguments& arguments);

/// The special method by which a plain tensor asks the class of the other operand; null if that has no say.
Value* method_that_asks(Tracer& tracer, Value* self, Value* other, const char* name);
/// A result that is the tensor of one of the arguments is that argument.
Value* with_its_object(Value* result, const Arguments& arguments);

}  // namespace stator
