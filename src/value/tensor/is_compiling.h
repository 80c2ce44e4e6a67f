/// `is_compiling()` and similar queries.
#pragma once

#include "value/value.h"

namespace stator {

/// The result for the calling function: True, as with torch.compile, except for the library functions listed in
/// `is_compiling.cpp`. A True is recorded, because the program may raise only because of it.
Value* answer_compiling(Tracer& tracer);

}  // namespace stator
