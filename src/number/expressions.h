/// The table of all expressions of a trace. Arithmetic on whole numbers is brought into one form, so that equal
/// expressions are one object; a comparison is answered by what is known, or else by the hints, which leaves a relation
/// that later calls have to satisfy. Numbers that the graph computes from data are *unbacked*: they have no hint, and a
/// question about them that nothing answers goes to the listener.
#pragma once

#include <functional>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "number/expression.h"
#include "number/facts.h"

namespace stator {

/// Thrown where a trace has more whole numbers that change than an `Atom` can count.
struct TooManyNumbers : std::runtime_error {
    TooManyNumbers() : std::runtime_error("the captured region has too many numbers that change between calls") {}
};

class Expressions {
  public:
    /// Expressions live as long as the arena. `on_relation` is called for each new relation: a condition that has to
    /// hold in later calls.
    using Listener = std::function<void(const Expression& condition)>;
    /// `on_question` is called where the answer depends on an unbacked number, with a comparison or with the number
    /// whose value is needed. It has to throw.
    explicit Expressions(Arena& arena, Listener on_relation = {}, Listener on_question = {})
        : arena_(arena), on_relation_(std::move(on_relation)), on_question_(std::move(on_question)) {}
    Expressions(const Expressions&) = delete;
    Expressions& operator=(const Expressions&) = delete;

    const Expression* constant(Number number);
    const Expression* constant(std::int64_t number) { return constant(Number::of_int(number)); }
    /// A number that is read from outside; the same source twice is one expression.
    const Expression* variable(Source* source, Number hint, Range range = {});
    /// A new number that the graph will compute.
    const Expression* unbacked(bool is_float, Range range = {}) { return unbacked(is_float, range, kTypical); }
    /// The same with a number that is taken for typical: strides are sorted by it (shape/language/strides.h).
    const Expression* unbacked(bool is_float, Range range, std::int64_t typical);
    /// The number of items of a slice, where that depends on data: equal slices have one number. Null at first, to be
    /// filled in.
    const Expression*& size_of_slice(const Expression* start, const Expression* stop, const Expression* size);

    /// `left op right`, or `op left`. Null where the result does not fit into 64 bits or Python would raise, and where
    /// the expression would become too large.
    const Expression* apply(Expression::Op op, const Expression* left, const Expression* right = nullptr);
    /// A comparison, or `Not`, `Same` and `Fits`.
    const Expression* condition(Expression::Op op, const Expression* left, const Expression* right = nullptr);

    /// Whether `left op right` in this call, and from now on in all others: leaves a relation unless it follows from
    /// what is known. Of whole numbers.
    bool decide(Expression::Op comparison, const Expression* left, const Expression* right);
    /// The same where PyTorch raises, or the program is not followed any further, unless it holds. Of an unbacked
    /// number it is taken to hold from now on, and the graph has to check it: see `take_requirements`.
    bool require(Expression::Op comparison, const Expression* left, const Expression* right);
    /// The conditions that the graph has to check, since the last call.
    std::vector<const Expression*> take_requirements() { return std::exchange(requirements_, {}); }
    /// PyTorch raises for some unbacked numbers, and nothing in the graph checks that before.
    void note_doubt() { has_doubts_ = true; }
    /// Whether there were such numbers since the last call.
    bool take_doubts() { return std::exchange(has_doubts_, false); }
    /// Goes to the listener for questions, which throws.
    [[noreturn]] void ask(const Expression& question) const;
    /// From now on a condition on unbacked numbers holds: the graph has checked it.
    void learn(const Expression& condition);
    /// Whether it follows from what is known, or does not.
    std::optional<bool> decided(Expression::Op comparison, const Expression* left, const Expression* right);
    /// The number is what it is in this call: leaves a relation unless that is known.
    std::int64_t specialize(const Expression* number);
    /// Leaves a relation that nothing follows from.
    void assume(const Expression* condition);

    /// The expression by what it is known to be equal to; a constant if it is known to be one.
    const Expression* resolved(const Expression* number);
    Range range_of(const Expression* number);

    const std::vector<const Expression*>& relations() const { return relations_; }
    /// Numbers that change, in the order in which they came.
    const std::vector<const Expression*>& variables() const { return variables_; }
    /// Numbers that the graph computes, in the order in which they came.
    const std::vector<const Expression*>& unbacked_numbers() const { return unbacked_; }
    /// Whether any number may be another one in the next call.
    bool has_symbols() const { return !variables_.empty() || !unbacked_.empty(); }

    /// From now on nothing can be assumed any more: who compares what is not known makes a mistake.
    void close() { is_closed_ = true; }

  private:
    static constexpr std::int64_t kTypical = 1009;

    struct Operation {
        Expression::Op op;
        const Expression* left;
        const Expression* right;
        friend bool operator==(const Operation&, const Operation&) = default;
    };
    struct Hash {
        std::size_t operator()(const Operation& operation) const;
        std::size_t operator()(const Polynomial& polynomial) const { return polynomial.hash(); }
    };

    Expression* make(Expression::Op op, const Expression* left, const Expression* right);
    const Polynomial& polynomial_of(const Expression* number) const { return *polynomials_.at(number); }
    /// Of a whole number that is not computed by `+`, `-` and `*` from others.
    void make_atom(const Expression* number, Range range);
    void set_polynomial(const Expression* number, Polynomial polynomial);
    std::optional<Polynomial> computed(Expression::Op op, const Expression* left, const Expression* right) const;
    const Expression* of_polynomial(const Polynomial& polynomial, const Operation& from, Number hint);
    const Expression* written_out(const Polynomial& polynomial);
    const Expression* quotient(Expression::Op op, const Expression* left, const Expression* right);
    const Expression* exact_quotient(Expression::Op op, const Polynomial& dividend, const Polynomial& divisor);
    const Expression* quotient_of_quotient(const Polynomial& dividend, const Expression* divisor);
    const Expression* extreme(Expression::Op op, const Expression* left, const Expression* right, Number hint);
    /// Of a float, as an int.
    const Expression* whole_part(Expression::Op op, const Expression* number, Number hint);
    const Expression* opaque(Expression::Op op, const Expression* left, const Expression* right, Number hint);
    Range range_of_operation(Expression::Op op, const Expression* left, const Expression* right);
    std::optional<Polynomial> difference(const Expression* left, const Expression* right) const;
    /// From now on `difference op 0` holds.
    void learn(Expression::Op comparison, const Polynomial& difference);
    /// An equality may have made the operands of quotients and the like known.
    void learn_what_atoms_come_to();
    /// A bound on a dividend.
    struct Bound {
        Expression::Op op;
        const Expression* number;
        std::int64_t bound;
    };
    /// `s0 >= 33` for `(s0 - 1) // 32 >= 1`, which is given as a polynomial that is compared with 0.
    std::optional<Bound> bound_on_dividend(Expression::Op comparison, const Polynomial& difference) const;

    Arena& arena_;
    Listener on_relation_;
    Listener on_question_;
    Facts facts_;
    bool is_closed_ = false;
    std::unordered_map<Source*, const Expression*> by_source_;
    std::unordered_map<std::uint64_t, const Expression*> floats_, ints_;
    std::unordered_map<Operation, const Expression*, Hash> by_operation_;
    std::unordered_map<Polynomial, const Expression*, Hash> by_polynomial_;
    /// Whole numbers only. The polynomials are the keys above.
    std::unordered_map<const Expression*, const Polynomial*> polynomials_;
    std::vector<const Expression*> atoms_{nullptr};
    std::vector<const Expression*> variables_;
    std::vector<const Expression*> unbacked_;
    std::vector<const Expression*> requirements_;
    bool has_doubts_ = false;
    std::vector<const Expression*> relations_;
    std::unordered_set<const Expression*> assumed_;  // the same
};

}  // namespace stator
