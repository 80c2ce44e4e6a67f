/// Equality of two items as containers see it: the same object, or equal.
#pragma once

#include <optional>

#include "value/tracer.h"

namespace stator {

/// The answer where it needs none of the program's code and no tensor; nothing where `==` has to be asked.
std::optional<bool> equal_at_once(Tracer& tracer, Value* left, Value* right);
/// Whether the bool that an operation gave is True.
bool is_true(const Value* boolean);
/// `left is right or left == right`, as a bool value; pending where `__eq__` is the program's own.
Outcome same_or_equal(Tracer& tracer, Value* left, Value* right);

/// Whether a key of a dict from outside, or an element of a set, is a value with an identity, which a guard by value
/// would not hold: an instance of a subclass of tuple, or a frozenset.
bool is_member_by_identity(Borrowed<> key);
/// Says of a key of a dict from outside, or an element of a set, that the guard on the container compares it by value.
void mark_as_member(Value* key, Value* container, PyObject* object);
/// The program asks which object it is: if it is such a key, the guard is to compare the very objects.
void guard_members(Tracer& tracer, const Value* key);

/// Whether a class leaves `==` and `hash` at what `object` does: by identity.
bool compares_by_identity(PyTypeObject* type);

}  // namespace stator
