/// Internal errors on purpose, to test how they are handled.
#pragma once

#include <cstddef>
#include <limits>

namespace stator {

/// Adding the node with this number to a graph is an internal error.
inline std::size_t failing_node = std::numeric_limits<std::size_t>::max();

}  // namespace stator
