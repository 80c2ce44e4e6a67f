/// Equality of constants, decided without user code.
#pragma once

#include "base/ref.h"

namespace stator {

/// The same object, or one that no program can tell from it but by `is`: the same class and the same value, with floats
/// compared by their bits, so that NaN is NaN and -0.0 is not 0.0. Tuples, slices and frozensets are compared item by
/// item. Objects of classes that it does not know are the same only if they are identical. Allocates nothing, raises
/// nothing.
bool same_constant(Borrowed<> object, Borrowed<> expected);

/// Whether hashing and comparing the object is done by CPython and PyTorch alone: numbers, strings, None, devices,
/// dtypes and tuples of those.
bool is_constant_key(Borrowed<> object);

/// Whether the object is equal to nothing but itself: classes, functions, enum members, instances without an `__eq__`.
bool is_known_by_identity(Borrowed<> object);

/// Whether looking a constant up among keys like this one runs no user code.
bool is_safe_beside(Borrowed<> key);

/// Whether looking a tensor up among keys like this other one runs no user code, and does not find it.
bool is_safe_beside_tensor(Borrowed<> key, Borrowed<> tensor);

}  // namespace stator
