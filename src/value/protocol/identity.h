/// Equality of two items as containers see it: the same object, or equal.
#pragma once

#include <optional>

#include "value/tracer.h"

namespace stator {

/// The result if it needs neither user code nor a tensor operation; nothing if `==` has to be called.
std::optional<bool> equal_at_once(Tracer& tracer, Value* left, Value* right);
/// Whether a bool value is True.
bool is_true(const Value* boolean);
/// `left is right or left == right`, as a bool value; pending if `__eq__` is user-defined.
Outcome same_or_equal(Tracer& tracer, Value* left, Value* right);

/// Whether a key of an outside dict, or an element of a set, has an identity that a guard by value does not check: an
/// instance of a subclass of tuple, or a frozenset.
bool is_member_by_identity(Borrowed<> key);
/// Marks a key of an outside dict, or an element of a set: the guard on the container compares it by value.
void mark_as_member(Value* key, Value* container, PyObject* object);
/// The program reads the identity of a value: if it is such a key, the guard has to compare identities.
void guard_members(Tracer& tracer, const Value* key);

/// Whether a class inherits `==` and `hash` from `object`, which compare by identity.
bool compares_by_identity(PyTypeObject* type);

}  // namespace stator
