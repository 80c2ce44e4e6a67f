/// The range of an int that follows from its guards.
#pragma once

#include <span>

#include "guard/guard.h"
#include "number/range.h"

namespace stator {

/// For an int that is guarded to fit into 64 bits. Uses only comparisons with constants, of the int itself or
/// of it plus a constant: the range is never too narrow.
Range range_of(const Source* source, std::span<const Guard> guards);

}  // namespace stator
