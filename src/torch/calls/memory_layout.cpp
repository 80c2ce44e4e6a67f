#include "torch/calls/memory_layout.h"

#include <algorithm>

namespace stator::torch_room {

namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Place {
    std::size_t begin, end;
    std::size_t life;
};

/// The smallest gap between the places in use that is large enough, or the end.
std::size_t find_gap(const std::vector<Place>& used, std::size_t bytes) {
    std::size_t at = 0, best = 0, best_size = ~std::size_t{0};
    for (const Place& place : used) {
        const std::size_t gap = place.begin - at;
        if (gap >= bytes && gap < best_size) best = at, best_size = gap;
        at = place.end;
    }
    return best_size == ~std::size_t{0} ? at : best;
}

}  // namespace

Layout lay_out(const std::vector<Life>& lives) {
    Layout layout;
    std::vector<Place> used;  // by offset
    for (std::size_t i = 0; i < lives.size(); ++i) {
        const Life& life = lives[i];
        std::erase_if(used, [&](const Place& place) {
            return lives[place.life].last < life.first || static_cast<std::int32_t>(place.life) == life.replaces;
        });
        const std::size_t bytes = aligned(life.bytes);
        const std::size_t offset =
            life.replaces >= 0 ? layout.offsets[static_cast<std::size_t>(life.replaces)] : find_gap(used, bytes);
        const Place place{offset, offset + bytes, i};
        used.insert(std::ranges::upper_bound(used, offset, {}, &Place::begin), place);
        layout.offsets.push_back(offset);
        layout.bytes = std::max(layout.bytes, place.end);
        std::size_t in_use = 0;
        for (const Place& one : used) in_use += one.end - one.begin;
        layout.most_in_use = std::max(layout.most_in_use, in_use);
    }
    return layout;
}

}  // namespace stator::torch_room
