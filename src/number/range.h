/// A range of whole numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace stator {

/// The outermost numbers stand for "no bound".
struct Range {
    static constexpr std::int64_t kNoLeast = std::numeric_limits<std::int64_t>::min();
    static constexpr std::int64_t kNoMost = std::numeric_limits<std::int64_t>::max();

    std::int64_t least = kNoLeast;
    std::int64_t most = kNoMost;

    bool contains(std::int64_t number) const { return least <= number && number <= most; }
    friend bool operator==(Range, Range) = default;
};

inline Range intersection(Range one, Range other) {
    return {std::max(one.least, other.least), std::min(one.most, other.most)};
}

}  // namespace stator
