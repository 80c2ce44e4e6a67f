/// Integers and slices used as indices.
#pragma once

#include <optional>

#include "value/tracer.h"

namespace stator {

/// The value as an index: for an int, a bool, or a constant with `__index__`. Nothing for other values; an int that is
/// too large raises IndexError.
std::optional<Py_ssize_t> as_index(Tracer& tracer, Value* value);
/// An int, clipped as `PyNumber_AsSsize_t` does without an exception.
std::optional<Py_ssize_t> as_clipped_index(Tracer& tracer, Value* value);
/// An index that must be an int: raises `'str' object cannot be interpreted as an integer`.
Py_ssize_t expect_index(Tracer& tracer, Value* value);
/// Whether the value is an integer to Python though it is not a constant: `__index__` would have to run.
bool has_index_method(Value* value);

struct SliceBounds {
    Py_ssize_t start, stop, step, count;
};

bool is_slice(const Value* value);
/// A slice applied to `length` items. Raises Python's errors; breaks if a bound is not a constant.
SliceBounds resolve_slice(Tracer& tracer, Value* slice, Py_ssize_t length);

}  // namespace stator
