/// What numpy computes of numbers alone: done for real while tracing, like everything that constants alone go into.
/// Arrays are not modelled.
#pragma once

#include "value/kinds/constant.h"

namespace stator {

/// A function of numpy that is an object of a class of its own: `numpy.sqrt`, `numpy.prod`.
bool is_numpy_function(Borrowed<> object);
/// Calls one that only computes, if all arguments are constants; else null.
Value* call_numpy_function(Tracer& tracer, Borrowed<> function, const Arguments& arguments);

/// Calls something of numpy for real; null if an argument is not constant. Breaks where numpy would warn, as it would
/// do so in every call, or gives an array.
Value* fold_in_numpy(Tracer& tracer, Borrowed<> callable, const Arguments& arguments);

/// Operators, if either side is a number of numpy; else null. They have their own ways with lists and strings.
Value* numpy_binary(Tracer& tracer, BinaryOperator op, ConstantValue* self, Value* other, bool reflected);
Value* numpy_compare(Tracer& tracer, Comparison op, ConstantValue* self, Value* other);
/// What a number of numpy tells of itself: `dtype`, `real`, ...
Value* numpy_attribute(Tracer& tracer, ConstantValue* number, Borrowed<> name);

/// What a number of numpy is to an operation on tensors. Breaks where PyTorch may take it in another way.
PyObject* plain_number(Tracer& tracer, ConstantValue* number);
/// Breaks if there is one among the values, or in tuples and lists of them.
void expect_no_numpy_number(Tracer& tracer, Value* value);

class Handlers;
void register_numpy(Handlers& handlers);

}  // namespace stator
