/// Sums of products of whole numbers in one canonical form, by which expressions are compared: `s0 * (s1 + 2)` and
/// `2 * s0 + s1 * s0` are one polynomial.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stator {

/// Stands for a number that is not computed by `+`, `-` and `*`: a source, or a quotient, a remainder, ...
/// Zero is none.
using Atom = std::uint16_t;

/// `coefficient * atom * atom ...`
struct Monomial {
    static constexpr std::size_t kMostAtoms = 6;

    std::array<Atom, kMostAtoms> atoms{};  // ascending, so that those that are none come first
    std::int64_t coefficient = 0;

    bool is_constant() const { return atoms.back() == 0; }
    /// How many atoms there are.
    std::size_t degree() const;
    friend bool operator==(const Monomial&, const Monomial&) = default;
};

/// Operations are empty where the result would be too large, in its terms or in its coefficients.
class Polynomial {
  public:
    static constexpr std::size_t kMostTerms = 12;

    Polynomial() = default;
    static Polynomial constant(std::int64_t number);
    static Polynomial of(Atom atom);

    /// Sorted by their atoms: a constant comes first. No coefficient is zero.
    std::span<const Monomial> terms() const { return terms_; }
    std::optional<std::int64_t> as_constant() const;
    bool contains(Atom atom) const;

    std::optional<Polynomial> plus(const Polynomial& other) const;
    std::optional<Polynomial> minus(const Polynomial& other) const;
    std::optional<Polynomial> times(const Polynomial& other) const;
    std::optional<Polynomial> times(const Monomial& other) const;
    /// Each occurrence of an atom replaced.
    std::optional<Polynomial> with(Atom atom, const Polynomial& replacement) const;

    /// `quotient * divisor + rest`, where no term of the rest is a multiple of the divisor.
    struct Division;
    Division divided_by(const Monomial& divisor) const;
    /// The quotient if there is no rest.
    std::optional<Polynomial> divided_exactly_by(const Polynomial& divisor) const;
    /// The largest monomial that divides all terms, its coefficient positive. Not of zero.
    Monomial common_factor() const;

    std::size_t hash() const;
    friend bool operator==(const Polynomial&, const Polynomial&) = default;

  private:
    static std::optional<Polynomial> sum(std::vector<Monomial> terms);

    std::vector<Monomial> terms_;
};

struct Polynomial::Division {
    Polynomial quotient;
    Polynomial rest;
};

}  // namespace stator
