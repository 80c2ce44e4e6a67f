/// What a value holds, as the trace knows it: while the holder lives, the program has not let go of these.
#pragma once

#include <vector>

#include "value/value.h"

namespace stator {

class Tracer;

/// Appends the values that `value` refers to. Of an object from outside that is what the trace has read of it, or put
/// there. Some iterators tell nothing of what they hold.
void add_held(const Tracer& tracer, const Value* value, std::vector<const Value*>& held);

}  // namespace stator
