/// Integers and slices that the program uses as positions.
#pragma once

#include <optional>

#include "value/tracer.h"

namespace stator {

/// The value as a position: of an int, a bool, or a constant with `__index__`. Nothing where it is none of these; an
/// int too large for a position raises IndexError.
std::optional<Py_ssize_t> as_index(Tracer& tracer, Value* value);
/// An int, cut down to what fits, as `PyNumber_AsSsize_t` without an exception does.
std::optional<Py_ssize_t> as_clipped_index(Tracer& tracer, Value* value);
/// A position that must be an int: raises `'str' object cannot be interpreted as an integer`.
Py_ssize_t expect_index(Tracer& tracer, Value* value);
/// Whether the program could use the value as an int though it is not known: `__index__` would have to run.
bool has_index_method(Value* value);

struct SliceBounds {
    Py_ssize_t start, stop, step, count;
};

bool is_slice(const Value* value);
/// A slice laid over `length` items. Raises what Python raises; breaks if a part is not known.
SliceBounds resolve_slice(Tracer& tracer, Value* slice, Py_ssize_t length);

}  // namespace stator
