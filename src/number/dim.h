/// A size, a stride or a storage offset: a constant, or an expression over numbers that change between calls.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "number/expression.h"
#include "number/range.h"

namespace stator {

/// Arithmetic on sizes left the range of 64 bits.
struct SizeOverflow {};

/// Code over sizes is written once: arithmetic on expressions makes expressions, and a comparison that nothing decides
/// is decided by the sizes of this call, which leaves a relation (see Expressions::decide).
class Dim {
  public:
    constexpr Dim(std::int64_t constant = 0) : bits_(constant) {}
    /// A constant expression becomes a constant.
    static Dim of(const Expression* expression);
    /// As an expression of this table.
    const Expression* in(Expressions& table) const;

    constexpr bool is_constant() const { return bits_ >= kLeastConstant; }
    /// The expression; null for a constant.
    const Expression* expression() const {
        return is_constant() ? nullptr : reinterpret_cast<const Expression*>(bits_ ^ kTag);
    }
    /// The number. An expression is specialized to what it is in this call.
    constexpr std::int64_t value() const { return is_constant() ? bits_ : specialized(); }
    /// What it is in this call.
    constexpr std::int64_t hint() const { return is_constant() ? bits_ : hint_of_expression(); }
    /// Whether it depends on the data of tensors: then a comparison that nothing decides has no answer.
    bool is_unbacked() const { return !is_constant() && expression()->is_unbacked; }
    /// Equal for the same constants and the same expressions.
    constexpr std::uint64_t identity() const { return static_cast<std::uint64_t>(bits_); }
    /// Whether an int can be told from an expression.
    static constexpr bool can_hold(std::int64_t number) { return number >= kLeastConstant; }

    friend constexpr bool operator==(Dim left, Dim right) {
        if (left.bits_ == right.bits_) return true;
        return !are_constant(left, right) && decide(Expression::Op::Equal, left, right);
    }
    friend constexpr bool operator<(Dim left, Dim right) {
        return are_constant(left, right) ? left.bits_ < right.bits_ : decide(Expression::Op::Less, left, right);
    }
    friend constexpr bool operator<=(Dim left, Dim right) {
        return are_constant(left, right) ? left.bits_ <= right.bits_ : decide(Expression::Op::LessEqual, left, right);
    }
    friend constexpr bool operator>(Dim left, Dim right) { return right < left; }
    friend constexpr bool operator>=(Dim left, Dim right) { return right <= left; }

    friend constexpr Dim operator+(Dim left, Dim right) {
        std::int64_t sum = 0;
        if (are_constant(left, right) && !__builtin_add_overflow(left.bits_, right.bits_, &sum) && can_hold(sum))
            return sum;
        return compute(Expression::Op::Add, left, right);
    }
    friend constexpr Dim operator-(Dim left, Dim right) {
        std::int64_t difference = 0;
        if (are_constant(left, right) && !__builtin_sub_overflow(left.bits_, right.bits_, &difference) &&
            can_hold(difference))
            return difference;
        return compute(Expression::Op::Subtract, left, right);
    }
    friend constexpr Dim operator*(Dim left, Dim right) {
        std::int64_t product = 0;
        if (are_constant(left, right) && !__builtin_mul_overflow(left.bits_, right.bits_, &product) &&
            can_hold(product))
            return product;
        return compute(Expression::Op::Multiply, left, right);
    }
    /// Rounds down; the divisor is positive.
    friend constexpr Dim operator/(Dim left, Dim right) {
        if (!are_constant(left, right)) return compute(Expression::Op::FloorDivide, left, right);
        std::int64_t quotient = left.bits_ / right.bits_;
        return quotient - (left.bits_ % right.bits_ != 0 && left.bits_ < 0);
    }
    friend constexpr Dim operator%(Dim left, Dim right) {
        if (!are_constant(left, right)) return compute(Expression::Op::Remainder, left, right);
        return left - left / right * right;
    }
    constexpr Dim& operator+=(Dim other) { return *this = *this + other; }
    constexpr Dim& operator-=(Dim other) { return *this = *this - other; }
    constexpr Dim& operator*=(Dim other) { return *this = *this * other; }

  private:
    // Expressions are their addresses with the highest bit set: no constant is that small.
    static constexpr std::int64_t kTag = std::numeric_limits<std::int64_t>::min();
    static constexpr std::int64_t kLeastConstant = -(std::int64_t{1} << 62);

    static constexpr bool are_constant(Dim left, Dim right) { return left.is_constant() && right.is_constant(); }
    static bool decide(Expression::Op comparison, Dim left, Dim right);
    static Dim compute(Expression::Op op, Dim left, Dim right);
    std::int64_t specialized() const;
    std::int64_t hint_of_expression() const;

    std::int64_t bits_;
};

using Dims = std::vector<Dim>;

// As `==` and `<`, but false where that depends on data and nothing decides it: for questions where both answers are
// right, such as whether a dimension of size one has to be expanded to one of size one.
bool known_equal(Dim left, Dim right);
bool known_less(Dim left, Dim right);
/// By the hints, where that depends on data and nothing decides it: as if sizes were large.
bool typically_less(Dim left, Dim right);

// As `==` and `<=`, where PyTorch raises unless they hold, or where nothing else is supported. If that depends on data,
// they hold from now on, and the graph checks it.
bool require_equal(Dim left, Dim right);
bool require_less_equal(Dim left, Dim right);

/// A new size that only the graph knows.
Dim unbacked_size(Expressions& table, Range range);

/// `8`, or `2 * s0`.
std::string print(Dim dim);

}  // namespace stator
