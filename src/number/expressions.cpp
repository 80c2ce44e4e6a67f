#include "number/expressions.h"

#include <bit>

#include "base/check.h"
#include "number/conditions.h"

namespace stator {

namespace {

using Op = Expression::Op;

std::uint64_t bits_of(Number number) {
    return number.is_float() ? std::bit_cast<std::uint64_t>(number.real())
                             : static_cast<std::uint64_t>(number.integer());
}

}  // namespace

std::size_t Expressions::Hash::operator()(const Operation& operation) const {
    std::uint64_t state = static_cast<std::uint64_t>(operation.op) + 1;
    for (const Expression* operand : {operation.left, operation.right}) {
        state = (state ^ reinterpret_cast<std::uintptr_t>(operand)) * 0xff51afd7ed558ccd;
        state ^= state >> 32;
    }
    return state;
}

Expression* Expressions::make(Op op, const Expression* left, const Expression* right) {
    auto* made = arena_.make<Expression>();
    made->op = op;
    made->left = left;
    made->right = right;
    made->table = this;
    made->size = 1 + (left == nullptr ? 0 : left->size) + (right == nullptr ? 0 : right->size);
    made->is_unbacked = (left != nullptr && left->is_unbacked) || (right != nullptr && right->is_unbacked);
    return made;
}

void Expressions::set_polynomial(const Expression* number, Polynomial polynomial) {
    auto [found, is_new] = by_polynomial_.emplace(std::move(polynomial), number);
    polynomials_.emplace(number, &found->first);
}

void Expressions::make_atom(const Expression* number, Range range) {
    auto atom = facts_.add(range, number->is_unbacked);
    if (!atom) throw TooManyNumbers();
    atoms_.push_back(number);
    set_polynomial(number, Polynomial::of(*atom));
}

const Expression* Expressions::constant(Number number) {
    const Expression*& known = (number.is_float() ? floats_ : ints_)[bits_of(number)];
    if (known != nullptr) return known;
    Expression* made = make(Op::Constant, nullptr, nullptr);
    made->constant = made->hint = number;
    made->is_float = number.is_float();
    known = made;
    if (!made->is_float) set_polynomial(made, Polynomial::constant(number.integer()));
    return made;
}

const Expression* Expressions::variable(Source* source, Number hint, Range range) {
    const Expression*& known = by_source_[source];
    if (known != nullptr) return known;
    Expression* made = make(Op::Source, nullptr, nullptr);
    made->source = source;
    made->hint = hint;
    made->is_float = hint.is_float();
    made->symbol = static_cast<std::uint32_t>(variables_.size());
    if (!made->is_float) make_atom(made, range);
    known = made;
    variables_.push_back(made);
    return made;
}

const Expression* Expressions::unbacked(bool is_float, Range range, std::int64_t typical) {
    Expression* made = make(Op::Unbacked, nullptr, nullptr);
    made->hint = is_float ? Number::of_float(static_cast<double>(typical)) : Number::of_int(typical);
    made->is_float = is_float;
    made->is_unbacked = true;
    made->symbol = static_cast<std::uint32_t>(unbacked_.size());
    if (!is_float) make_atom(made, range);
    unbacked_.push_back(made);
    return made;
}

const Expression*& Expressions::size_of_slice(const Expression* start, const Expression* stop, const Expression* size) {
    return by_operation_[{Op::Unbacked, condition(Op::Same, start, stop), size}];
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

const Expression* Expressions::apply(Op op, const Expression* left, const Expression* right) {
    auto hint = stator::apply(op, left->hint, right == nullptr ? Number() : right->hint);
    if (!hint) return nullptr;
    if (left->op == Op::Constant && (right == nullptr || right->op == Op::Constant)) return constant(*hint);
    if (1 + left->size + (right == nullptr ? 0 : right->size) > Expression::kLargest) return nullptr;
    Operation operation{op, left, right};
    if (auto found = by_operation_.find(operation); found != by_operation_.end()) return found->second;
    const bool is_whole = !left->is_float && (right == nullptr || !right->is_float) && !hint->is_float();
    const Expression* made = nullptr;
    if (is_whole && (op == Op::Minimum || op == Op::Maximum)) {
        made = extreme(op, left, right, *hint);
    } else if (!hint->is_float() && left->is_float) {
        made = whole_part(op, left, *hint);
        if (made == nullptr) return nullptr;
    } else if (!is_whole) {
        Expression* real = make(op, left, right);
        real->is_float = hint->is_float();
        real->hint = *hint;
        made = real;
    } else if (auto polynomial = computed(op, left, right)) {
        made = of_polynomial(*polynomial, operation, *hint);
    } else if (op == Op::FloorDivide || op == Op::Remainder) {
        made = quotient(op, left, right);
    }
    if (made == nullptr) made = opaque(op, left, right, *hint);
    by_operation_.emplace(operation, made);
    return made;
}

const Expression* Expressions::extreme(Op op, const Expression* left, const Expression* right, Number hint) {
    const Op wins = op == Op::Minimum ? Op::LessEqual : Op::GreaterEqual;
    if (auto is_left = decided(wins, left, right)) return *is_left ? left : right;
    if (auto found = by_operation_.find({op, right, left}); found != by_operation_.end()) return found->second;
    const Expression* made = opaque(op, left, right, hint);
    if (made == nullptr) return nullptr;
    for (const Expression* operand : {left, right})
        if (auto polynomial = difference(made, operand)) facts_.learn(wins, *polynomial);
    return made;
}

/// `math.floor(s0 / 2)` is `s0 // 2`: a quotient of ints is computed only where both are exact as floats, and then
/// rounding never reaches the next whole number.
const Expression* Expressions::whole_part(Op op, const Expression* number, Number hint) {
    const bool divides = number->op == Op::TrueDivide && !number->left->is_float && !number->right->is_float;
    if (divides && range_of(number->right).least > 0) {
        if (op == Op::Floor || (op == Op::Truncate && range_of(number->left).least >= 0))
            return apply(Op::FloorDivide, number->left, number->right);
        if (op == Op::Ceiling) {
            const Expression* negative = apply(Op::Negative, number->left);
            if (negative != nullptr) negative = apply(Op::FloorDivide, negative, number->right);
            if (negative != nullptr) return apply(Op::Negative, negative);
        }
    }
    return opaque(op, number, nullptr, hint);
}

std::optional<Polynomial> Expressions::computed(Op op, const Expression* left, const Expression* right) const {
    const Polynomial& one = polynomial_of(left);
    switch (op) {
        case Op::Add:
            return one.plus(polynomial_of(right));
        case Op::Subtract:
            return one.minus(polynomial_of(right));
        case Op::Multiply:
            return one.times(polynomial_of(right));
        case Op::Negative:
            return one.times(Monomial{{}, -1});
        case Op::LeftShift:
            if (right->op != Op::Constant || right->constant.integer() > 61) return std::nullopt;
            return one.times(Monomial{{}, std::int64_t{1} << right->constant.integer()});
        case Op::Power: {
            if (right->op != Op::Constant || right->constant.integer() > 4) return std::nullopt;
            std::optional<Polynomial> result = Polynomial::constant(1);
            for (std::int64_t i = 0; result && i < right->constant.integer(); ++i) result = result->times(one);
            return result;
        }
        default:
            return std::nullopt;
    }
}

/// The tree that the program computed, or one that is written out from the polynomial if that is smaller.
const Expression* Expressions::of_polynomial(const Polynomial& polynomial, const Operation& from, Number hint) {
    if (auto number = polynomial.as_constant()) return constant(*number);
    if (auto found = by_polynomial_.find(polynomial); found != by_polynomial_.end()) return found->second;
    std::size_t size = polynomial.terms().size() - 1;
    for (const Monomial& term : polynomial.terms()) {
        std::size_t atoms = 0;
        for (Atom atom : term.atoms) atoms += atom == 0 ? 0 : atoms_[atom]->size;
        size += atoms + (term.degree() == 0 ? 1 : term.degree() - 1 + (term.coefficient == 1 ? 0 : 2));
    }
    if (size < 1 + from.left->size + (from.right == nullptr ? 0 : from.right->size))
        if (const Expression* written = written_out(polynomial)) return written;
    Expression* made = make(from.op, from.left, from.right);
    made->hint = hint;
    set_polynomial(made, polynomial);
    return made;
}

/// `s0 * s1 + 2 * s0 + 1`, the constant last. Null where that is too large, or a part does not fit into 64 bits in this
/// call.
const Expression* Expressions::written_out(const Polynomial& polynomial) {
    auto joined = [&](Op op, const Expression* left, const Expression* right) -> const Expression* {
        auto hint = stator::apply(op, left->hint, right->hint);
        auto part = computed(op, left, right);
        if (!hint || !part) return nullptr;
        if (auto found = by_polynomial_.find(*part); found != by_polynomial_.end()) return found->second;
        if (1 + left->size + right->size > Expression::kLargest) return nullptr;
        Expression* made = make(op, left, right);
        made->hint = *hint;
        set_polynomial(made, std::move(*part));
        return made;
    };
    const Expression* total = nullptr;
    for (std::size_t i = polynomial.terms().size(); i-- > 0;) {
        const Monomial& term = polynomial.terms()[i];
        const Expression* product = nullptr;
        for (Atom atom : term.atoms) {
            if (atom == 0) continue;
            product = product == nullptr ? atoms_[atom] : joined(Op::Multiply, product, atoms_[atom]);
            if (product == nullptr) return nullptr;
        }
        const bool subtracts = total != nullptr && term.coefficient < 0;
        const std::int64_t factor = subtracts ? -term.coefficient : term.coefficient;
        if (product == nullptr)
            product = constant(factor);
        else if (factor != 1)
            product = joined(Op::Multiply, product, constant(factor));
        if (product != nullptr && total != nullptr)
            product = joined(subtracts ? Op::Subtract : Op::Add, total, product);
        if (product == nullptr) return nullptr;
        total = product;
    }
    return total;
}

/// `(6 * s0 + 3) // 2` is `3 * s0 + 1`: what is a multiple of the divisor comes out of the quotient.
const Expression* Expressions::quotient(Op op, const Expression* left, const Expression* right) {
    Polynomial divisor = facts_.resolved(polynomial_of(right));
    Polynomial dividend = facts_.resolved(polynomial_of(left));
    // (It is not 0: that would raise.)
    if (facts_.range_of(divisor).least <= 0) return exact_quotient(op, dividend, divisor);
    if (divisor.terms().size() != 1) return exact_quotient(op, dividend, divisor);
    auto [whole, rest] = dividend.divided_by(divisor.terms()[0]);
    if (rest == polynomial_of(left)) return op == Op::FloorDivide ? quotient_of_quotient(rest, right) : nullptr;
    const Expression* rest_number = rest.as_constant() ? constant(*rest.as_constant()) : written_out(rest);
    const Expression* whole_number = whole.as_constant() ? constant(*whole.as_constant()) : written_out(whole);
    if (rest_number == nullptr || whole_number == nullptr) return nullptr;
    // A rest within the divisor's range has no whole part.
    Range range = facts_.range_of(rest);
    const bool is_small = range.least >= 0 && decided(Op::Less, rest_number, right) == true;
    const Expression* part = is_small ? (op == Op::Remainder ? rest_number : constant(0)) : nullptr;
    if (part == nullptr && rest.as_constant() && divisor.as_constant())
        part = constant(*stator::apply(op, rest_number->hint, right->hint));
    if (part == nullptr && op == Op::FloorDivide) part = quotient_of_quotient(rest, right);
    if (part == nullptr) {
        Operation operation{op, rest_number, right};
        auto hint = stator::apply(op, rest_number->hint, right->hint);
        if (!hint) return nullptr;
        auto found = by_operation_.find(operation);
        part = found != by_operation_.end() ? found->second : opaque(op, rest_number, right, *hint);
        by_operation_.emplace(operation, part);
        if (part == nullptr) return nullptr;
    }
    return op == Op::Remainder ? part : apply(Op::Add, whole_number, part);
}

/// `(2 * s0 * s1 + 2 * s0) // (s1 + 1)` is `2 * s0`. Null where there is a rest.
const Expression* Expressions::exact_quotient(Op op, const Polynomial& dividend, const Polynomial& divisor) {
    auto whole = dividend.divided_exactly_by(divisor);
    if (!whole) return nullptr;
    if (op == Op::Remainder) return constant(0);
    return whole->as_constant() ? constant(*whole->as_constant()) : written_out(*whole);
}

/// `(s0 // 2 + 3) // 4` is `(s0 + 6) // 8`. Null for any other.
const Expression* Expressions::quotient_of_quotient(const Polynomial& dividend, const Expression* divisor) {
    std::span<const Monomial> terms = dividend.terms();
    if (divisor->op != Op::Constant || terms.empty() || terms.size() > 2) return nullptr;
    if (terms.size() == 2 && !terms[0].is_constant()) return nullptr;
    if (terms.back().degree() != 1 || terms.back().coefficient != 1) return nullptr;
    const Expression* inner = atoms_[terms.back().atoms.back()];
    if (inner->op != Op::FloorDivide || inner->right->op != Op::Constant) return nullptr;
    if (inner->right->constant.integer() <= 0 || divisor->constant.integer() <= 0) return nullptr;
    const std::int64_t offset = terms.size() == 2 ? terms[0].coefficient : 0;
    auto shift = stator::apply(Op::Multiply, offset, inner->right->constant.integer());
    const Expression* both = apply(Op::Multiply, inner->right, divisor);
    const Expression* whole = shift && both != nullptr ? apply(Op::Add, inner->left, constant(*shift)) : nullptr;
    return whole == nullptr ? nullptr : apply(Op::FloorDivide, whole, both);
}

Range Expressions::range_of_operation(Op op, const Expression* left, const Expression* right) {
    if (left->is_float) return {};
    if (op == Op::Absolute) return {0, Range::kNoMost};
    if (right == nullptr) return {};
    Range divisor = range_of(right), dividend = range_of(left);
    if (op == Op::Minimum) return {std::min(dividend.least, divisor.least), std::min(dividend.most, divisor.most)};
    if (op == Op::Maximum) return {std::max(dividend.least, divisor.least), std::max(dividend.most, divisor.most)};
    if (op == Op::Remainder && divisor.least > 0)
        return {0, divisor.most == Range::kNoMost ? Range::kNoMost : divisor.most - 1};
    if (op == Op::FloorDivide && divisor.least > 0 && dividend.least >= 0) {
        const bool is_bounded = dividend.most != Range::kNoMost;
        const std::int64_t least = divisor.most == Range::kNoMost ? 0 : dividend.least / divisor.most;
        return {least, is_bounded ? dividend.most / divisor.least : Range::kNoMost};
    }
    return {};
}

const Expression* Expressions::opaque(Op op, const Expression* left, const Expression* right, Number hint) {
    Expression* made = make(op, left, right);
    made->hint = hint;
    if (made->size > Expression::kLargest) return nullptr;
    make_atom(made, range_of_operation(op, left, right));
    return made;
}

// --- relations -------------------------------------------------------------------------------------------------------

const Expression* Expressions::condition(Op op, const Expression* left, const Expression* right) {
    Operation operation{op, left, right};
    const Expression*& known = by_operation_[operation];
    if (known == nullptr) known = make(op, left, right);
    return known;
}

std::optional<Polynomial> Expressions::difference(const Expression* left, const Expression* right) const {
    auto result = polynomial_of(left).minus(polynomial_of(right));
    if (result) result = facts_.resolved(*result);
    return result;
}

std::optional<bool> Expressions::decided(Op comparison, const Expression* left, const Expression* right) {
    auto polynomial = difference(left, right);
    return polynomial ? facts_.decided(comparison, *polynomial) : std::nullopt;
}

std::optional<Expressions::Bound> Expressions::bound_on_dividend(Op comparison, const Polynomial& difference) const {
    std::span<const Monomial> terms = difference.terms();
    if (comparison == Op::Equal || comparison == Op::NotEqual || terms.empty() || terms.size() > 2) return std::nullopt;
    const Monomial& last = terms.back();
    if (last.degree() != 1 || (last.coefficient != 1 && last.coefficient != -1)) return std::nullopt;
    if (terms.size() == 2 && !terms[0].is_constant()) return std::nullopt;
    const Expression* quotient = atoms_[last.atoms.back()];
    if (quotient->op != Op::FloorDivide || quotient->is_unbacked || quotient->right->op != Op::Constant)
        return std::nullopt;
    const std::int64_t divisor = quotient->right->constant.integer();
    const std::int64_t offset = terms.size() == 2 ? terms[0].coefficient : 0;
    // `quotient >= bound` or `quotient <= bound`.
    const bool is_strict = comparison == Op::Less || comparison == Op::Greater;
    const bool is_positive = comparison == Op::Greater || comparison == Op::GreaterEqual;
    const bool is_least = is_positive == (last.coefficient == 1);
    auto bound = stator::apply(Op::Multiply, offset, -last.coefficient);
    if (bound && is_strict) bound = stator::apply(is_least ? Op::Add : Op::Subtract, *bound, 1);
    if (bound) bound = stator::apply(Op::Multiply, *bound, divisor);
    if (bound && !is_least) bound = stator::apply(Op::Add, *bound, divisor - 1);
    if (!bound || divisor <= 0) return std::nullopt;
    return Bound{is_least ? Op::GreaterEqual : Op::LessEqual, quotient->left, *bound};
}

void Expressions::learn(Op comparison, const Polynomial& difference) {
    facts_.learn(comparison, difference);
    if (comparison == Op::Equal) learn_what_atoms_come_to();
}

void Expressions::learn_what_atoms_come_to() {
    // Atoms are sorted such that the operands of one come before it.
    for (std::size_t atom = 1; atom < atoms_.size(); ++atom) {
        const Expression& number = *atoms_[atom];
        if (number.left == nullptr || number.left->is_float) continue;
        auto known = [&](const Expression* operand) {
            return operand == nullptr ? std::optional<std::int64_t>(0)
                                      : facts_.resolved(polynomial_of(operand)).as_constant();
        };
        auto left = known(number.left), right = known(number.right);
        if (!left || !right || facts_.resolved(polynomial_of(&number)).as_constant()) continue;
        auto result = stator::apply(number.op, Number::of_int(*left), Number::of_int(*right));
        if (!result || result->is_float()) continue;
        if (auto difference = this->difference(&number, constant(*result))) facts_.learn(Op::Equal, *difference);
    }
}

bool Expressions::decide(Op comparison, const Expression* left, const Expression* right) {
    auto polynomial = difference(left, right);
    if (polynomial)
        if (auto known = facts_.decided(comparison, *polynomial)) return *known;
    if (left->is_unbacked || right->is_unbacked) ask(*condition(comparison, left, right));
    const bool holds = compare(comparison, left->hint.integer(), right->hint.integer());
    const Op relation = holds ? comparison : inverted(comparison);
    if (polynomial) learn(relation, *polynomial);
    if (auto bound = polynomial ? bound_on_dividend(relation, *polynomial) : std::nullopt)
        decide(bound->op, bound->number, constant(bound->bound));
    else
        assume(condition(relation, left, right));
    return holds;
}

void Expressions::ask(const Expression& question) const {
    if (on_question_) on_question_(question);
    STATOR_CHECK(false, "a question about an unbacked number has no answer");
}

bool Expressions::require(Op comparison, const Expression* left, const Expression* right) {
    if (!left->is_unbacked && !right->is_unbacked) return decide(comparison, left, right);
    if (auto known = decided(comparison, left, right)) return *known;
    const Expression* needed = condition(comparison, left, right);
    learn(*needed);
    requirements_.push_back(needed);
    return true;
}

void Expressions::learn(const Expression& condition) {
    if (!is_comparison(condition.op)) return;
    if (condition.left->is_float || condition.right->is_float) return;
    if (auto polynomial = difference(condition.left, condition.right)) learn(condition.op, *polynomial);
}

std::int64_t Expressions::specialize(const Expression* number) {
    if (number->is_unbacked) {
        const Expression* known = resolved(number);
        if (known->op != Op::Constant) ask(*number);
        return known->constant.integer();
    }
    decide(Op::Equal, number, constant(number->hint));
    return number->hint.integer();
}

void Expressions::assume(const Expression* condition) {
    if (condition->is_unbacked) ask(*condition);
    STATOR_CHECK(!is_closed_, "a relation between sizes is assumed after the trace has ended");
    if (!assumed_.insert(condition).second) return;
    relations_.push_back(condition);
    if (on_relation_) on_relation_(*condition);
}

const Expression* Expressions::resolved(const Expression* number) {
    if (number->is_float || number->op == Op::Constant) return number;
    Polynomial polynomial = facts_.resolved(polynomial_of(number));
    if (auto known = polynomial.as_constant()) return constant(*known);
    if (polynomial == polynomial_of(number)) return number;
    if (auto found = by_polynomial_.find(polynomial); found != by_polynomial_.end()) return found->second;
    const Expression* written = written_out(polynomial);
    return written != nullptr ? written : number;
}

Range Expressions::range_of(const Expression* number) {
    return facts_.range_of(facts_.resolved(polynomial_of(number)));
}

}  // namespace stator
