/// The values that a value references, as far as the trace knows them: while the holder is alive, the program has not
/// dropped them.
#pragma once

#include <vector>

#include "value/value.h"

namespace stator {

class Tracer;

/// Appends the values that `value` references. For an outside object, those that the trace has read from it or stored
/// in it. Some iterators do not report theirs.
void add_held(const Tracer& tracer, const Value* value, std::vector<const Value*>& held);

}  // namespace stator
