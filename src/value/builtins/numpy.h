/// numpy functions of numbers, which are evaluated while tracing like all functions of constants. Arrays are not
/// modelled.
#pragma once

#include "value/kinds/constant.h"

namespace stator {

/// A numpy function that is an instance of a numpy class: `numpy.sqrt` (a ufunc), `numpy.prod`.
bool is_numpy_function(Borrowed<> object);
/// Calls a function without side effects if all arguments are constants; otherwise null.
Value* call_numpy_function(Tracer& tracer, Borrowed<> function, const Arguments& arguments);

/// Calls a numpy function on constants; null if an argument is not constant. Breaks the graph if numpy warns, because
/// it would warn in every call, or if it returns an array.
Value* fold_in_numpy(Tracer& tracer, Borrowed<> callable, const Arguments& arguments);

/// Operators, if either operand is a numpy scalar; else null. numpy treats lists and strings in its own way.
Value* numpy_binary(Tracer& tracer, BinaryOperator op, ConstantValue* self, Value* other, bool reflected);
Value* numpy_compare(Tracer& tracer, Comparison op, ConstantValue* self, Value* other);
/// Attributes of a numpy scalar: `dtype`, `real`, ...
Value* numpy_attribute(Tracer& tracer, ConstantValue* number, Borrowed<> name);

/// The Python number that a tensor operation takes a numpy scalar for. Breaks the graph if PyTorch may take another.
PyObject* plain_number(Tracer& tracer, ConstantValue* number);
/// Breaks the graph if the value is a numpy scalar, or a tuple or list that contains one.
void expect_no_numpy_number(Tracer& tracer, Value* value);

class Handlers;
void register_numpy(Handlers& handlers);

}  // namespace stator
