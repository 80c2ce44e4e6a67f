/// numpy functions of numbers, which are evaluated while tracing like all functions of constants. Arrays are in
/// arrays.h.
#pragma once

#include "value/kinds/constant.h"

namespace stator {

/// A numpy function that is an instance of a numpy class: `numpy.sqrt` (a ufunc), `numpy.prod`.
bool is_numpy_function(Borrowed<> object);
/// Calls a function without side effects if all arguments are constants; otherwise null.
Value* call_numpy_function(Tracer& tracer, Borrowed<> function, const Arguments& arguments);

/// Calls a numpy function on constants; null if an argument is not constant, or the result is an array. Breaks the
/// graph if numpy warns, because it would warn in every call.
Value* fold_in_numpy(Tracer& tracer, Borrowed<> callable, const Arguments& arguments);

/// Operators, if either operand is a numpy scalar; else null. numpy treats lists and strings in its own way.
Value* numpy_binary(Tracer& tracer, BinaryOperator op, ConstantValue* self, Value* other, bool reflected);
Value* numpy_compare(Tracer& tracer, Comparison op, ConstantValue* self, Value* other);
/// Attributes of a numpy scalar: `dtype`, `real`, ...
Value* numpy_attribute(Tracer& tracer, ConstantValue* number, Borrowed<> name);

/// `numpy.dtype`, or the class of one dtype.
bool is_numpy_dtype(PyTypeObject* type);
/// Compares a dtype from outside with anything that is like a dtype.
Value* compare_numpy_dtypes(Tracer& tracer, Comparison op, Value* dtype, Value* other);

/// A `numpy.float32` or `numpy.float16` beside a tensor as the Python float that PyTorch takes it for; any other value
/// is returned as it is.
Value* plain_operand(Tracer& tracer, Value* value);
/// The Python number that a tensor operation takes a numpy scalar for. Breaks the graph if PyTorch may take another.
PyObject* plain_number(Tracer& tracer, ConstantValue* number);
/// Breaks the graph if the value is a numpy scalar, or a tuple or list that contains one.
void expect_no_numpy_number(Tracer& tracer, Value* value);

class Handlers;
void register_numpy(Handlers& handlers);

}  // namespace stator
