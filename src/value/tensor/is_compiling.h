/// `torch.compiler.is_compiling()` and its relatives.
#pragma once

#include "value/value.h"

namespace stator {

/// True, as with torch.compile, unless the running function is one of the library functions listed in is_compiling.cpp.
/// The tracer remembers that the program got True, because the program may raise for that reason.
Value* value_of_is_compiling(Tracer& tracer);

}  // namespace stator
