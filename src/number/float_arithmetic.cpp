#include "number/float_arithmetic.h"

#include <cmath>

namespace stator {

namespace {

using Op = Expression::Op;

/// Whether the int is exactly representable as a float, so that floats compare and divide as the ints do.
bool is_exact(Number number) {
    constexpr std::int64_t kLargest = std::int64_t{1} << 53;
    return number.is_float() || (-kLargest <= number.integer() && number.integer() <= kLargest);
}

double remainder(double left, double right) {
    double rest = std::fmod(left, right);
    if (rest == 0) return std::copysign(0.0, right);
    return (right < 0) != (rest < 0) ? rest + right : rest;
}

double floor_divide(double left, double right) {
    double rest = std::fmod(left, right);
    double quotient = (left - rest) / right;
    if (rest != 0 && (right < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(0.0, left / right);
    double whole = std::floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

std::optional<double> power(double base, double exponent) {
    double result = std::pow(base, exponent);
    if (!std::isfinite(base) || !std::isfinite(exponent)) return result;
    if (base < 0 && exponent != std::floor(exponent)) return std::nullopt;  // complex
    // Too large, or zero to a negative power.
    return std::isfinite(result) ? std::optional(result) : std::nullopt;
}

std::optional<double> compute(Op op, double left, double right) {
    switch (op) {
        case Op::Add:
            return left + right;
        case Op::Subtract:
            return left - right;
        case Op::Multiply:
            return left * right;
        case Op::TrueDivide:
            return right == 0 ? std::nullopt : std::optional(left / right);
        case Op::FloorDivide:
            return right == 0 ? std::nullopt : std::optional(floor_divide(left, right));
        case Op::Remainder:
            return right == 0 ? std::nullopt : std::optional(remainder(left, right));
        case Op::Power:
            return power(left, right);
        case Op::Negative:
            return -left;
        case Op::Absolute:
            return std::fabs(left);
        default:
            return std::nullopt;
    }
}

}  // namespace

std::optional<Number> apply_to_floats(Op op, Number left, Number right) {
    bool compares = op >= Op::Less && op <= Op::GreaterEqual;
    bool is_of_ints = !left.is_float() && !right.is_float();
    if ((compares || is_of_ints) && !(is_exact(left) && is_exact(right))) return std::nullopt;
    if (compares) return Number::of_int(compare(op, left.real(), right.real()));
    auto result = compute(op, left.real(), right.real());
    return result ? std::optional(Number::of_float(*result)) : std::nullopt;
}

}  // namespace stator
