/// Arithmetic of dtypes: kinds, promotion, casting.
#pragma once

#include <cstdint>
#include <optional>

#include "torch/meta.h"

namespace stator::torch_room {

/// The dtypes that rules use; numbers as in `c10::ScalarType`.
namespace dtype {
inline constexpr Dtype kByte{0}, kChar{1}, kShort{2}, kInt{3}, kLong{4}, kHalf{5}, kFloat{6}, kDouble{7},
    kComplexHalf{8}, kComplexFloat{9}, kComplexDouble{10}, kBool{11}, kBFloat16{15};
}  // namespace dtype

/// The dtypes above: what most operations take. Quantized, 8-bit float, bit and wide unsigned types are not among them.
constexpr bool is_ordinary(Dtype type) {
    auto number = static_cast<int>(type);
    return (number >= 0 && number <= 11) || type == dtype::kBFloat16;
}
constexpr bool is_complex(Dtype type) {
    return type == dtype::kComplexHalf || type == dtype::kComplexFloat || type == dtype::kComplexDouble;
}
constexpr bool is_quantized(Dtype type) {
    auto number = static_cast<int>(type);
    return number >= 12 && number <= 17 && type != dtype::kBFloat16;
}
constexpr bool is_floating(Dtype type) {
    return type == dtype::kHalf || type == dtype::kFloat || type == dtype::kDouble || type == dtype::kBFloat16;
}
/// Integers and `bool`; only for ordinary dtypes.
constexpr bool is_integral(Dtype type) {
    return !is_complex(type) && !is_floating(type);
}
constexpr bool can_have_grad(Dtype type) {
    return is_floating(type) || is_complex(type);
}
/// Whether a result of one type may be written to a tensor of the other.
constexpr bool can_cast(Dtype from, Dtype to) {
    if (is_complex(from) && !is_complex(to)) return false;
    if (is_floating(from) && is_integral(to)) return false;
    return from == dtype::kBool || to != dtype::kBool;
}
constexpr Dtype to_complex(Dtype type) {
    if (type == dtype::kHalf) return dtype::kComplexHalf;
    if (type == dtype::kDouble) return dtype::kComplexDouble;
    return is_complex(type) ? type : dtype::kComplexFloat;
}
constexpr Dtype to_real(Dtype type) {
    if (type == dtype::kComplexHalf) return dtype::kHalf;
    if (type == dtype::kComplexFloat) return dtype::kFloat;
    return type == dtype::kComplexDouble ? dtype::kDouble : type;
}

/// How many bytes an element takes; for ordinary dtypes.
constexpr int bytes_of(Dtype type) {
    constexpr int bytes[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1};
    return type == dtype::kBFloat16 ? 2 : bytes[static_cast<int>(type)];
}

/// The type both are converted to; for ordinary dtypes.
Dtype promote(Dtype left, Dtype right);

}  // namespace stator::torch_room
