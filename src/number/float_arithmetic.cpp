#include "number/float_arithmetic.h"

#include <cmath>

#include "number/conditions.h"

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

/// The nearest whole number, and of two the even one.
double rounded(double number) {
    double nearest = std::round(number);
    return std::fabs(number - nearest) == 0.5 ? 2 * std::round(number / 2) : nearest;
}

std::optional<std::int64_t> whole(Op op, double number) {
    double result = op == Op::Truncate ? std::trunc(number)
                    : op == Op::Round  ? rounded(number)
                    : op == Op::Floor  ? std::floor(number)
                                       : std::ceil(number);
    constexpr double kBound = 0x1p63;
    if (!(result >= -kBound && result < kBound)) return std::nullopt;  // also a NaN
    return static_cast<std::int64_t>(result);
}

double called(Op op, double number) {
    switch (op) {
        case Op::SquareRoot:
            return std::sqrt(number);
        case Op::Cosine:
            return std::cos(number);
        case Op::CosineHyperbolic:
            return std::cosh(number);
        case Op::Sine:
            return std::sin(number);
        case Op::SineHyperbolic:
            return std::sinh(number);
        case Op::Tangent:
            return std::tan(number);
        case Op::TangentHyperbolic:
            return std::tanh(number);
        case Op::ArcSine:
            return std::asin(number);
        case Op::ArcCosine:
            return std::acos(number);
        case Op::ArcTangent:
            return std::atan(number);
        default:
            return std::log2(number);
    }
}

/// A function of module `math`, which raises instead of returning a NaN or an infinity for a finite number.
std::optional<double> computed_by_math(Op op, double number) {
    double result = called(op, number);
    if (std::isfinite(number) ? !std::isfinite(result) : std::isnan(result) && !std::isnan(number)) return std::nullopt;
    return result;
}

std::optional<double> compute(Op op, double left, double right) {
    if (is_float_function(op)) return computed_by_math(op, left);
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
    bool compares = is_comparison(op);
    bool is_of_ints = !left.is_float() && !right.is_float();
    if ((compares || is_of_ints) && !(is_exact(left) && is_exact(right))) return std::nullopt;
    if (compares) return Number::of_int(compare(op, left.real(), right.real()));
    if (op >= Op::Truncate && op <= Op::Ceiling) {
        auto number = whole(op, left.real());
        return number ? std::optional(Number::of_int(*number)) : std::nullopt;
    }
    auto result = compute(op, left.real(), right.real());
    return result ? std::optional(Number::of_float(*result)) : std::nullopt;
}

}  // namespace stator
