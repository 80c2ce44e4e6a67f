/// Bounds on numbers that a stronger bound implies: a network that halves an image five times needs a size of at least
/// 3, 5, 9, 17 and 33.
#pragma once

#include <vector>

#include "guard/guard.h"

namespace stator {

/// Drops the guards that compare a number from outside with a constant where another one is at least as strong.
void drop_weaker_bounds(std::vector<Guard>& guards);

}  // namespace stator
