/// What Python says of operands that an operator does not take.
///
/// The words differ from class to class, and from operator to operator. So Python is asked: the operator runs on
/// stand-ins, objects of the same classes with nothing in them.
#pragma once

#include "value/tracer.h"

namespace stator {

/// Needs: no side has a method of the program's own for the operator, and no value could answer.
[[noreturn]] void refuse_operands(Tracer& tracer, BinaryOperator op, bool in_place, Value* left, Value* right);
/// `self.__add__(other)`, called by its name, where the value could not answer: `NotImplemented`, or what it raises.
Value* refusal_of_method(Tracer& tracer, const char* method, Value* self, Value* other);

/// An object of the value's class with nothing in it; the constant itself. Null where there is none.
Ref<> stand_in(Tracer& tracer, Value* value);
/// The operator of Python's C API.
PyObject* python_binary(BinaryOperator op, bool in_place, PyObject* left, PyObject* right);

}  // namespace stator
