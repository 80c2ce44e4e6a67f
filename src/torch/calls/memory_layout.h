/// Which results share memory, of those whose lives are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stator::torch_room {

struct Life {
    std::size_t bytes;
    std::uint32_t first, last;  // the calls between which it is in use, both included
    // The life that ends with the call that begins this one, and of which this one may take the place; -1 if none.
    std::int32_t replaces = -1;
};

/// Memory for lives that follow each other. It is there from the first one to the last one.
struct SharedChunk {
    std::size_t bytes;
    std::uint32_t first, last;  // calls
};

struct Layout {
    std::vector<SharedChunk> chunks;
    std::vector<std::uint32_t> chunk_of;  // by life
};

/// `lives` in the order of their beginnings. `in_use` is how many bytes are in use at each call, these lives among
/// them: with the layout there is never more in use than the most of that.
Layout lay_out(const std::vector<Life>& lives, std::vector<std::size_t> in_use);

}  // namespace stator::torch_room
