/// One block of memory for tensors of which the lives are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stator::torch_room {

struct Life {
    std::size_t bytes;
    std::uint32_t first, last;  // the events between which it is in use, both included
    // The life that ends with the event at which this one begins, and of which this one takes the place; -1 if none.
    std::int32_t replaces = -1;
};

struct Layout {
    std::vector<std::size_t> offsets;  // by life; aligned as PyTorch's allocator does
    std::size_t bytes = 0;
    std::size_t most_in_use = 0;  // at one time
};

/// `lives` in the order of their beginnings.
Layout lay_out(const std::vector<Life>& lives);

}  // namespace stator::torch_room
