/// Equality of constants, decided without user code.
#pragma once

#include "base/ref.h"

namespace stator {

/// The same object, or one that differs from it only under `is`: the same class and the same value, with floats
/// compared by their bits, so that NaN equals NaN and -0.0 differs from 0.0. Tuples, slices and frozensets are compared
/// item by item. Objects of other classes are compared by identity. Allocates nothing, raises
/// nothing.
bool same_constant(Borrowed<> object, Borrowed<> expected);

/// The same for instances of one subclass of int, float, complex, str or bytes: the number or text in them, whatever
/// their class makes of `==`.
bool same_contents(Borrowed<> object, Borrowed<> expected);

/// Whether hashing and comparing the object runs no user code: numbers, strings, None, devices,
/// dtypes and tuples of those.
bool is_constant_key(Borrowed<> object);

/// Whether equality is identity: classes, functions, enum members, instances without an `__eq__`.
bool is_known_by_identity(Borrowed<> object);

/// Whether looking a constant up among keys like this one runs no user code.
bool is_safe_beside(Borrowed<> key);

/// Whether looking a tensor up among keys like this other one runs no user code, and does not find it.
bool is_safe_beside_tensor(Borrowed<> key, Borrowed<> tensor);

}  // namespace stator
