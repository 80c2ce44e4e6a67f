/// What is known of numbers that change between calls: ranges, equalities, and comparisons whose outcome is guarded.
/// What follows from that needs no guard of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "number/expression.h"
#include "number/polynomial.h"
#include "number/range.h"

namespace stator {

class Facts {
  public:
    /// A new number, of which nothing is known but its range. Empty where there are too many.
    std::optional<Atom> add(Range range, bool is_unbacked = false);
    Range range_of(Atom atom) const { return atoms_[atom].range; }
    /// From now on the number is known to be in this range as well.
    void narrow(Atom atom, Range range);

    /// The same number in terms of those that are not known to equal others.
    Polynomial resolved(const Polynomial& polynomial) const;

    /// Whether `difference op 0`, where that follows from what is known. `difference` is resolved.
    std::optional<bool> decided(Expression::Op op, const Polynomial& difference) const;
    /// From now on `difference op 0` holds. `difference` is resolved.
    void learn(Expression::Op op, const Polynomial& difference);

    Range range_of(const Polynomial& polynomial) const;

  private:
    struct AtomFacts {
        Range range;
        std::optional<Polynomial> equal_to;
        bool is_unbacked = false;
    };
    /// Of a polynomial whose last coefficient is positive.
    struct Known {
        Range range;
        bool is_not_zero = false;
    };
    struct Hash {
        std::size_t operator()(const Polynomial& polynomial) const { return polynomial.hash(); }
    };

    Range range_by_terms(const Polynomial& polynomial) const;
    Known known_of(const Polynomial& difference) const;
    bool has_unbacked(const Polynomial& polynomial) const;
    void learn_equality(const Polynomial& difference);
    void learn_of_single_atom(const Polynomial& difference, Known known);

    std::vector<AtomFacts> atoms_{1};
    std::vector<Atom> replaced_;
    std::unordered_map<Polynomial, Known, Hash> known_;
};

}  // namespace stator
