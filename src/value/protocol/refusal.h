/// Python's errors for operands that an operator rejects. The messages differ between classes and operators, so the
/// operator is executed on stand-ins: empty objects of the same classes.
#pragma once

#include "value/tracer.h"

namespace stator {

/// Neither operand has a user-defined method for the operator, and neither kind supports it.
[[noreturn]] void refuse_operands(Tracer& tracer, BinaryOperator op, bool in_place, Value* left, Value* right);
/// The result of `self.__add__(other)`, called by name, if the kind does not support it: `NotImplemented`, or an
/// exception.
Value* refusal_of_method(Tracer& tracer, const char* method, Value* self, Value* other);

/// The name of the value's class in quotes, as in Python's messages.
std::string quoted_type(const Value* value);

/// An empty object of the value's class, or the constant itself. Null if there is none.
Ref<> stand_in(Tracer& tracer, Value* value);
/// The operator of Python's C API.
PyObject* python_binary(BinaryOperator op, bool in_place, PyObject* left, PyObject* right);

}  // namespace stator
