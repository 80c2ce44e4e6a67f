/// `assert condition`, where the condition depends on data and such numbers are captured: the graph checks it. If the
/// check fails, the program runs uncompiled and raises the AssertionError itself.
#pragma once

#include "value/tracer.h"

namespace stator {

/// Whether the graph checks the condition from now on, which is then taken to hold.
bool assert_in_graph(Tracer& tracer, Value* condition);

}  // namespace stator
