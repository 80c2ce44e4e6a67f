/// Sizes that were symbols at first, and constants at the end of the trace.
#pragma once

#include <span>
#include <vector>

#include "base/arena.h"
#include "trace/trace.h"

namespace stator {

/// Makes them part of the guards on their tensors, and drops relations that follow: then the entry is found by these
/// sizes as one that was captured without symbols is.
void guard_specialized_sizes(std::vector<Guard>& guards, std::span<const Symbol> symbols, Arena& arena);

}  // namespace stator
