#include "number/facts.h"

#include <algorithm>
#include <limits>

namespace stator {

namespace {

using Op = Expression::Op;
using Wide = __int128;

constexpr Wide kNoBound = Wide{1} << 100;  // beyond all that a product of two bounds can be

Wide widened(std::int64_t bound) {
    if (bound == Range::kNoLeast) return -kNoBound;
    return bound == Range::kNoMost ? kNoBound : Wide{bound};
}

/// Bounds that do not fit into 64 bits are none.
Range narrowed(Wide least, Wide most) {
    Range range;
    if (least > Range::kNoLeast) range.least = static_cast<std::int64_t>(std::min<Wide>(least, Range::kNoMost - 1));
    if (most < Range::kNoMost) range.most = static_cast<std::int64_t>(std::max<Wide>(most, Range::kNoLeast + 1));
    return range;
}

Wide product_of_bounds(std::int64_t left, std::int64_t right) {
    Wide one = widened(left), other = widened(right);
    if (one == 0 || other == 0) return 0;
    bool is_unbounded = one <= -kNoBound || one >= kNoBound || other <= -kNoBound || other >= kNoBound;
    if (is_unbounded) return (one < 0) != (other < 0) ? -kNoBound : kNoBound;
    return one * other;
}

Range product(Range left, Range right) {
    const Wide corners[] = {product_of_bounds(left.least, right.least), product_of_bounds(left.least, right.most),
                            product_of_bounds(left.most, right.least), product_of_bounds(left.most, right.most)};
    auto [least, most] = std::ranges::minmax(corners);
    return narrowed(least, most);
}

Range sum(Range left, Range right) {
    auto add = [](Wide one, Wide other, Wide no_bound) {
        return one == no_bound || other == no_bound ? no_bound : one + other;
    };
    return narrowed(add(widened(left.least), widened(right.least), -kNoBound),
                    add(widened(left.most), widened(right.most), kNoBound));
}

Range negated(Range range) {
    return {range.most == Range::kNoMost ? Range::kNoLeast : -range.most,
            range.least == Range::kNoLeast ? Range::kNoMost : -range.least};
}

bool has_negative_end(const Polynomial& polynomial) {
    return !polynomial.terms().empty() && polynomial.terms().back().coefficient < 0;
}

std::int64_t divide_down(std::int64_t left, std::int64_t right) {
    return *apply(Op::FloorDivide, left, right);
}

}  // namespace

std::optional<Atom> Facts::add(Range range, bool is_unbacked) {
    if (atoms_.size() > std::numeric_limits<Atom>::max()) return std::nullopt;
    atoms_.push_back({range, {}, is_unbacked});
    return static_cast<Atom>(atoms_.size() - 1);
}

void Facts::narrow(Atom atom, Range range) {
    Range& known = atoms_[atom].range;
    known = intersection(known, range);
}

Polynomial Facts::resolved(const Polynomial& polynomial) const {
    Polynomial result = polynomial;
    // What an atom is equal to has only atoms that are older, or were not replaced when it was learned.
    for (bool again = !replaced_.empty(); again;) {
        again = false;
        for (Atom atom : replaced_) {
            if (!result.contains(atom)) continue;
            auto next = result.with(atom, *atoms_[atom].equal_to);
            if (!next) return result;
            result = std::move(*next);
            again = true;
        }
    }
    return result;
}

Range Facts::range_by_terms(const Polynomial& polynomial) const {
    Range total{0, 0};
    for (const Monomial& term : polynomial.terms()) {
        Range part{term.coefficient, term.coefficient};
        for (Atom atom : term.atoms)
            if (atom != 0) part = product(part, atoms_[atom].range);
        total = sum(total, part);
    }
    return total;
}

Facts::Known Facts::known_of(const Polynomial& difference) const {
    bool is_negative = has_negative_end(difference);
    auto found = known_.find(is_negative ? *difference.times(Monomial{{}, -1}) : difference);
    if (found == known_.end()) return {};
    return {is_negative ? negated(found->second.range) : found->second.range, found->second.is_not_zero};
}

Range Facts::range_of(const Polynomial& polynomial) const {
    Range range = range_by_terms(polynomial);
    if (polynomial.terms().size() < 2) return range;
    range = intersection(range, known_of(polynomial).range);
    // `s0 * s1 - s0` is `s0 * (s1 - 1)`: what the terms share says more than each of them does.
    Monomial factor = polynomial.common_factor();
    if (factor.is_constant()) return range;
    Range scale = range_by_terms(*Polynomial::constant(1).times(factor));
    Polynomial rest = polynomial.divided_by(factor).quotient;
    return intersection(range, product(scale, intersection(range_by_terms(rest), known_of(rest).range)));
}

std::optional<bool> Facts::decided(Op op, const Polynomial& difference) const {
    Range range = range_of(difference);
    const bool is_not_zero = !range.contains(0) || known_of(difference).is_not_zero;
    switch (op) {
        case Op::Less:
            if (range.most < 0 || (range.most == 0 && is_not_zero)) return true;
            if (range.least >= 0) return false;
            break;
        case Op::LessEqual:
            if (range.most <= 0) return true;
            if (range.least > 0 || (range.least == 0 && is_not_zero)) return false;
            break;
        case Op::Greater:
            if (range.least > 0 || (range.least == 0 && is_not_zero)) return true;
            if (range.most <= 0) return false;
            break;
        case Op::GreaterEqual:
            if (range.least >= 0) return true;
            if (range.most < 0 || (range.most == 0 && is_not_zero)) return false;
            break;
        case Op::Equal:
        case Op::NotEqual:
            if (range == Range{0, 0}) return op == Op::Equal;
            if (is_not_zero) return op == Op::NotEqual;
            break;
        default:
            break;
    }
    return std::nullopt;
}

void Facts::learn(Op op, const Polynomial& difference) {
    Known known;
    switch (op) {
        case Op::Less:
            known.range.most = -1;
            break;
        case Op::LessEqual:
            known.range.most = 0;
            break;
        case Op::Greater:
            known.range.least = 1;
            break;
        case Op::GreaterEqual:
            known.range.least = 0;
            break;
        case Op::Equal:
            known.range = {0, 0};
            break;
        case Op::NotEqual:
            known.is_not_zero = true;
            break;
        default:
            return;
    }
    bool is_negative = has_negative_end(difference);
    auto positive = is_negative ? difference.times(Monomial{{}, -1}) : std::optional(difference);
    if (!positive) return;
    if (is_negative) known.range = negated(known.range);
    Known& all = known_[*positive];
    all.range = intersection(all.range, known.range);
    all.is_not_zero = all.is_not_zero || known.is_not_zero;
    if (op == Op::Equal) learn_equality(*positive);
    learn_of_single_atom(*positive, all);
}

bool Facts::has_unbacked(const Polynomial& polynomial) const {
    for (const Monomial& term : polynomial.terms())
        for (Atom atom : term.atoms)
            if (atoms_[atom].is_unbacked) return true;
    return false;
}

void Facts::learn_equality(const Polynomial& difference) {
    // Guards can't mention unbacked numbers: only such a number is replaced by what has one.
    const bool is_of_unbacked = has_unbacked(difference);
    // The newest number that stands alone, with a coefficient of 1 or -1, is the rest.
    for (std::size_t i = difference.terms().size(); i-- > 0;) {
        const Monomial& term = difference.terms()[i];
        if (term.degree() != 1 || (term.coefficient != 1 && term.coefficient != -1)) continue;
        Atom atom = term.atoms.back();
        if (is_of_unbacked && !atoms_[atom].is_unbacked) continue;
        auto rest = difference.minus(*Polynomial::constant(1).times(term));
        if (!rest || rest->contains(atom)) continue;
        auto equal_to = rest->times(Monomial{{}, -term.coefficient});
        if (!equal_to) continue;
        // It is in the range of what it is equal to, and the other way round where that is one number.
        Range range = atoms_[atom].range;
        if (equal_to->terms().size() == 1 && equal_to->terms()[0].degree() == 1 &&
            equal_to->terms()[0].coefficient == 1)
            narrow(equal_to->terms()[0].atoms.back(), range);
        atoms_[atom].equal_to = std::move(*equal_to);
        replaced_.push_back(atom);
        return;
    }
}

void Facts::learn_of_single_atom(const Polynomial& difference, Known known) {
    // `coefficient * atom + offset`, and the coefficient is positive.
    std::span<const Monomial> terms = difference.terms();
    if (terms.empty() || terms.size() > 2 || terms.back().degree() != 1) return;
    if (terms.size() == 2 && !terms[0].is_constant()) return;
    const std::int64_t coefficient = terms.back().coefficient;
    const std::int64_t offset = terms.size() == 2 ? terms[0].coefficient : 0;
    const Atom atom = terms.back().atoms.back();
    Range range;
    std::int64_t bound = 0;
    if (known.range.least != Range::kNoLeast && !__builtin_sub_overflow(known.range.least, offset, &bound) &&
        bound != Range::kNoLeast)
        range.least = -divide_down(-bound, coefficient);
    if (known.range.most != Range::kNoMost && !__builtin_sub_overflow(known.range.most, offset, &bound))
        range.most = divide_down(bound, coefficient);
    narrow(atom, range);
    Range& now = atoms_[atom].range;
    if (known.is_not_zero && offset % coefficient == 0 && offset != Range::kNoLeast) {
        const std::int64_t excluded = -offset / coefficient;
        if (now.least == excluded && excluded != Range::kNoMost) ++now.least;
        if (now.most == excluded && excluded != Range::kNoLeast) --now.most;
    }
    if (now.least == now.most && !atoms_[atom].equal_to) {
        atoms_[atom].equal_to = Polynomial::constant(now.least);
        replaced_.push_back(atom);
    }
}

}  // namespace stator
