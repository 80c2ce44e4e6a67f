/// NumPy computations on numbers only, which are executed while tracing, like all operations on constants. Arrays have
/// no model.
#pragma once

#include "value/kinds/constant.h"

namespace stator {

/// A NumPy function that is not a plain function object: `numpy.sqrt`, `numpy.prod`.
bool is_numpy_function(Borrowed<> object);
/// Calls a function without side effects if all arguments are constants; otherwise null.
Value* call_numpy_function(Tracer& tracer, Borrowed<> function, const Arguments& arguments);

/// Calls a NumPy function; null if an argument is not a constant. Breaks if NumPy would warn, because it would in every
/// call, or returns an array.
Value* fold_in_numpy(Tracer& tracer, Borrowed<> callable, const Arguments& arguments);

/// Operators with a NumPy scalar on either side; otherwise null. NumPy defines its own behavior for lists and strings.
Value* numpy_binary(Tracer& tracer, BinaryOperator op, ConstantValue* self, Value* other, bool reflected);
Value* numpy_compare(Tracer& tracer, Comparison op, ConstantValue* self, Value* other);
/// Attributes of a NumPy scalar: `dtype`, `real`, ...
Value* numpy_attribute(Tracer& tracer, ConstantValue* number, Borrowed<> name);

/// A NumPy scalar as an argument of a tensor operation. Breaks if PyTorch might treat it differently.
PyObject* plain_number(Tracer& tracer, ConstantValue* number);
/// Breaks if a value is a NumPy scalar, or a tuple or list that contains one.
void expect_no_numpy_number(Tracer& tracer, Value* value);

class Handlers;
void register_numpy(Handlers& handlers);

}  // namespace stator
