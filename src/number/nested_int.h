/// The ragged size of a jagged tensor: PyTorch has an object in place of a number, a *nested int*. Two ragged sizes are
/// equal if the tensors share their offsets; they compare as larger than any number that a program may ask about. Here
/// it is a constant from a range that no size reaches, so that code over sizes compares it like any other.
#pragma once

#include "number/dim.h"

namespace stator {

namespace nested_int {

inline constexpr std::int64_t kFirst = std::int64_t{3} << 60;
inline constexpr std::int64_t kCount = std::int64_t{1} << 59;

/// By the number that PyTorch gives it.
constexpr Dim of(std::int64_t id) {
    return kFirst + id;
}
constexpr bool is(Dim dim) {
    return dim.is_constant() && dim.hint() >= kFirst && dim.hint() < kFirst + kCount;
}
constexpr std::int64_t id(Dim dim) {
    return dim.hint() - kFirst;
}

}  // namespace nested_int

}  // namespace stator
