#include "number/polynomial.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stator {

namespace {

std::optional<Monomial> product(const Monomial& left, const Monomial& right) {
    Monomial result;
    if (left.degree() + right.degree() > Monomial::kMostAtoms) return std::nullopt;
    if (__builtin_mul_overflow(left.coefficient, right.coefficient, &result.coefficient) ||
        result.coefficient == std::numeric_limits<std::int64_t>::min())
        return std::nullopt;
    std::array<Atom, 2 * Monomial::kMostAtoms> merged;
    std::ranges::merge(left.atoms, right.atoms, merged.begin());
    std::copy(merged.begin() + Monomial::kMostAtoms, merged.end(), result.atoms.begin());
    return result;
}

/// The factor by which a divisor has to be multiplied; empty if it does not divide.
std::optional<Monomial> quotient(const Monomial& dividend, const Monomial& divisor) {
    // (The smallest number divided by -1 does not fit.)
    if (divisor.coefficient == 0 || divisor.coefficient == -1 || dividend.coefficient % divisor.coefficient != 0)
        return std::nullopt;
    Monomial result;
    result.coefficient = dividend.coefficient / divisor.coefficient;
    std::size_t place = Monomial::kMostAtoms, at = Monomial::kMostAtoms;
    for (std::size_t i = Monomial::kMostAtoms; i-- > 0 && divisor.atoms[i] != 0;) {
        while (at > 0 && dividend.atoms[at - 1] > divisor.atoms[i]) result.atoms[--place] = dividend.atoms[--at];
        if (at == 0 || dividend.atoms[at - 1] != divisor.atoms[i]) return std::nullopt;
        --at;
    }
    while (at > 0 && dividend.atoms[at - 1] != 0) result.atoms[--place] = dividend.atoms[--at];
    return result;
}

}  // namespace

std::size_t Monomial::degree() const {
    return static_cast<std::size_t>(std::ranges::count_if(atoms, [](Atom atom) { return atom != 0; }));
}

Polynomial Polynomial::constant(std::int64_t number) {
    Polynomial made;
    if (number != 0) made.terms_.push_back({{}, number});
    return made;
}

Polynomial Polynomial::of(Atom atom) {
    Polynomial made;
    Monomial term{{}, 1};
    term.atoms.back() = atom;
    made.terms_.push_back(term);
    return made;
}

std::optional<std::int64_t> Polynomial::as_constant() const {
    if (terms_.empty()) return 0;
    if (terms_.size() == 1 && terms_[0].is_constant()) return terms_[0].coefficient;
    return std::nullopt;
}

bool Polynomial::contains(Atom atom) const {
    return std::ranges::any_of(
        terms_, [&](const Monomial& term) { return std::ranges::find(term.atoms, atom) != term.atoms.end(); });
}

std::optional<Polynomial> Polynomial::sum(std::vector<Monomial> terms) {
    std::ranges::sort(terms, {}, &Monomial::atoms);
    Polynomial result;
    for (const Monomial& term : terms) {
        if (!result.terms_.empty() && result.terms_.back().atoms == term.atoms) {
            Monomial& last = result.terms_.back();
            if (__builtin_add_overflow(last.coefficient, term.coefficient, &last.coefficient)) return std::nullopt;
            if (last.coefficient == 0) result.terms_.pop_back();
        } else if (term.coefficient != 0) {
            result.terms_.push_back(term);
        }
    }
    if (result.terms_.size() > kMostTerms) return std::nullopt;
    return result;
}

std::optional<Polynomial> Polynomial::plus(const Polynomial& other) const {
    std::vector<Monomial> all = terms_;
    all.insert(all.end(), other.terms_.begin(), other.terms_.end());
    return sum(std::move(all));
}

std::optional<Polynomial> Polynomial::minus(const Polynomial& other) const {
    auto negated = other.times(Monomial{{}, -1});
    return negated ? plus(*negated) : std::nullopt;
}

std::optional<Polynomial> Polynomial::times(const Polynomial& other) const {
    if (terms_.size() * other.terms_.size() > std::size_t{4} * kMostTerms) return std::nullopt;
    std::vector<Monomial> all;
    all.reserve(terms_.size() * other.terms_.size());
    for (const Monomial& left : terms_)
        for (const Monomial& right : other.terms_) {
            auto term = product(left, right);
            if (!term) return std::nullopt;
            all.push_back(*term);
        }
    return sum(std::move(all));
}

std::optional<Polynomial> Polynomial::times(const Monomial& other) const {
    Polynomial factor;
    if (other.coefficient != 0) factor.terms_.push_back(other);
    return times(factor);
}

std::optional<Polynomial> Polynomial::with(Atom atom, const Polynomial& replacement) const {
    Polynomial result;
    for (const Monomial& term : terms_) {
        Monomial rest{{}, term.coefficient};
        std::size_t place = Monomial::kMostAtoms, powers = 0;
        for (std::size_t i = Monomial::kMostAtoms; i-- > 0;) {
            if (term.atoms[i] == 0) break;
            if (term.atoms[i] == atom)
                ++powers;
            else
                rest.atoms[--place] = term.atoms[i];
        }
        std::optional<Polynomial> part = Polynomial::constant(1).times(rest);
        for (; part && powers > 0; --powers) part = part->times(replacement);
        auto next = part ? result.plus(*part) : std::nullopt;
        if (!next) return std::nullopt;
        result = std::move(*next);
    }
    return result;
}

Polynomial::Division Polynomial::divided_by(const Monomial& divisor) const {
    Division division;
    std::vector<Monomial> quotients;
    for (const Monomial& term : terms_) {
        if (auto factor = stator::quotient(term, divisor))
            quotients.push_back(*factor);
        else
            division.rest.terms_.push_back(term);
    }
    division.quotient = *sum(std::move(quotients));
    return division;
}

std::optional<Polynomial> Polynomial::divided_exactly_by(const Polynomial& divisor) const {
    if (divisor.terms_.empty()) return std::nullopt;
    Polynomial whole, rest = *this;
    // Terms are sorted by degree first: each step removes the last one.
    for (std::size_t step = 0; step < kMostTerms && !rest.terms_.empty(); ++step) {
        auto factor = stator::quotient(rest.terms_.back(), divisor.terms_.back());
        if (!factor) return std::nullopt;
        auto taken = divisor.times(*factor);
        auto left = taken ? rest.minus(*taken) : std::nullopt;
        auto sum = whole.plus(*constant(1).times(*factor));
        if (!left || !sum) return std::nullopt;
        rest = std::move(*left);
        whole = std::move(*sum);
    }
    return rest.terms_.empty() ? std::optional(std::move(whole)) : std::nullopt;
}

Monomial Polynomial::common_factor() const {
    Monomial common = terms_.front();
    for (const Monomial& term : terms_)
        if (term.coefficient == std::numeric_limits<std::int64_t>::min()) return {{}, 1};  // it has no absolute value
    for (const Monomial& term : terms_) {
        Monomial shared{{}, std::gcd(common.coefficient, term.coefficient)};
        std::vector<Atom> both;
        std::ranges::set_intersection(common.atoms, term.atoms, std::back_inserter(both));
        std::size_t place = Monomial::kMostAtoms;
        while (!both.empty() && both.back() != 0) {
            shared.atoms[--place] = both.back();
            both.pop_back();
        }
        common = shared;
    }
    if (common.coefficient < 0) common.coefficient = -common.coefficient;
    return common;
}

std::size_t Polynomial::hash() const {
    std::uint64_t state = 0x9e3779b97f4a7c15;
    auto add = [&](std::uint64_t word) {
        state = (state ^ word) * 0xff51afd7ed558ccd;
        state ^= state >> 32;
    };
    for (const Monomial& term : terms_) {
        for (Atom atom : term.atoms) add(atom);
        add(static_cast<std::uint64_t>(term.coefficient));
    }
    return state;
}

}  // namespace stator
