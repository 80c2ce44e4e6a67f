/// Errors on purpose, so that tests can see what becomes of one.
#pragma once

#include <cstddef>
#include <limits>

namespace stator {

/// The number of a node; adding it to a graph is an error of Stator's own.
inline std::size_t failing_node = std::numeric_limits<std::size_t>::max();

}  // namespace stator
