/// Programs that ask whether they are being compiled, and do something else then.
#pragma once

#include "value/value.h"

namespace stator {

/// The answer to the function that runs: it is, as with torch.compile, except for the functions of libraries listed in
/// `is_compiling.cpp`. A yes is remembered, because the program may fail for it where it would not have failed
/// otherwise.
Value* answer_compiling(Tracer& tracer);

}  // namespace stator
