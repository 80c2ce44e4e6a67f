/// A place in the bytecode of a code object.
#pragma once

#include <compare>
#include <cstdint>

namespace stator::cpython {

/// A distance in bytes from the first code unit, as `dis` shows it and `f_lasti` counts. Not an index of anything.
struct Offset {
    std::int32_t value = -1;

    constexpr bool is_valid() const { return value >= 0; }
    /// The same place counted in code units of two bytes.
    constexpr std::int32_t unit() const { return value / 2; }
    static constexpr Offset of_unit(std::int32_t unit) { return {unit * 2}; }
    friend constexpr auto operator<=>(Offset, Offset) = default;
};

constexpr Offset kNoOffset{};

}  // namespace stator::cpython
