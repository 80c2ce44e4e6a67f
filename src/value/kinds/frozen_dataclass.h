/// Frozen dataclasses: objects that are what their constructor has made of its arguments.
#pragma once

#include "value/value.h"

namespace stator {

bool is_frozen_dataclass(PyTypeObject* type);
/// An object equal to an instance of a frozen dataclass that the program has made of constants, and of other such
/// objects; null for any other value.
Ref<> copy_of_frozen(Tracer& tracer, Value* value);

}  // namespace stator
