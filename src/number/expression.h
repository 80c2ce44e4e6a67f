/// Arithmetic over numbers that change between calls: ints and floats of the program, and sizes of tensors. An
/// expression computes a number from them: the guard program evaluates it in 64 bits, the plan and the graph as Python
/// does. Expressions are made by a table (number/expressions.h), which keeps each one once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "number/number.h"

namespace stator {

struct Source;
class Expressions;

struct Expression {
    enum class Op : std::uint8_t {
#define EXPRESSION_OP(name, symbol) name,
#include "number/expression_ops.def"
#undef EXPRESSION_OP
    };

    Op op = Op::Constant;
    bool is_float = false;
    Source* source = nullptr;
    Number constant;
    /// What it comes to in the call that was traced; not of conditions. If it is unbacked, only a typical number.
    Number hint;
    /// Of a source or an unbacked number: its number among those of the trace, as in `s0` and `u0`.
    std::uint32_t symbol = 0;
    /// Whether it depends on numbers that the graph computes: nobody knows it while tracing, and no guard can check it.
    bool is_unbacked = false;
    const Expression* left = nullptr;
    const Expression* right = nullptr;  // null where the operation takes one operand
    /// Number of nodes of the whole tree, at most `kLargest`, which bounds recursion.
    std::uint32_t size = 1;
    /// Where it is kept. Equal expressions of one table are one object.
    Expressions* table = nullptr;

    static constexpr std::uint32_t kLargest = 64;
};

/// `left op right` in 64 bits; `right` is ignored if the operation takes one operand. Empty if the result does not
/// fit, or if Python would raise.
std::optional<Number> apply(Expression::Op op, Number left, Number right = {});
/// The same of ints, where the result is one.
std::optional<std::int64_t> apply(Expression::Op op, std::int64_t left, std::int64_t right);

/// Whether a comparison holds between two ints or two floats.
template <class Value>
bool compare(Expression::Op op, Value left, Value right) {
    switch (op) {
        case Expression::Op::Less:
            return left < right;
        case Expression::Op::LessEqual:
            return left <= right;
        case Expression::Op::Equal:
            return left == right;
        case Expression::Op::NotEqual:
            return left != right;
        case Expression::Op::Greater:
            return left > right;
        default:
            return left >= right;
    }
}

bool takes_two(Expression::Op op);
/// `min(s0, 8)`, not `s0 + 8`.
constexpr bool is_function(Expression::Op op) {
    return Expression::Op::Absolute <= op && op <= Expression::Op::Log2;
}
/// Whether the result is a float whatever the operand is.
constexpr bool is_float_function(Expression::Op op) {
    return Expression::Op::SquareRoot <= op && op <= Expression::Op::Log2;
}
/// The function of Python by that name. Borrowed; throws PythonError.
PyObject* python_function(Expression::Op function);
/// The negated comparison.
Expression::Op inverted(Expression::Op comparison);
const char* symbol(Expression::Op op);

/// One operation of an expression in postfix order, for a stack machine.
struct Term {
    Expression::Op op;
    bool is_float = false;
    std::int32_t place = -1;      // of a source: its register
    std::int32_t dimension = -1;  // of the size of a tensor, which is in that register
    Number constant;
    Source* source = nullptr;
    std::uint32_t symbol = 0;

    friend bool operator==(const Term& one, const Term& other) {
        return one.op == other.op && one.is_float == other.is_float && one.place == other.place &&
               one.dimension == other.dimension && one.constant == other.constant;
    }
};

std::vector<Term> terms_of(const Expression& expression);

/// The result, with the numbers that `read` returns for sources; empty if one is missing or of another class, or a
/// result does not fit.
template <class Read>
std::optional<Number> evaluate(std::span<const Term> terms, const Read& read) {
    Number stack[Expression::kLargest + 2];
    std::size_t depth = 0;
    for (const Term& term : terms) {
        std::optional<Number> value;
        if (term.op == Expression::Op::Source || term.op == Expression::Op::Unbacked) {
            value = read(term);
            if (value && value->is_float() != term.is_float) return std::nullopt;
        } else if (term.op == Expression::Op::Constant) {
            value = term.constant;
        } else {
            Number right = takes_two(term.op) ? stack[--depth] : Number();
            Number left = stack[--depth];
            value = apply(term.op, left, right);
        }
        if (!value) return std::nullopt;
        stack[depth++] = *value;
    }
    return stack[0];
}

/// A condition over terms, for the guard program.
struct Condition {
    std::vector<Term> terms;
    bool is_of_ints = false;  // ints alone are computed and compared

    explicit Condition(std::vector<Term> of);
};

/// The result of terms that compute ints alone, as `evaluate` has it.
template <class Read>
std::optional<std::int64_t> evaluate_ints(std::span<const Term> terms, const Read& read) {
    std::int64_t stack[Expression::kLargest + 2];
    std::size_t depth = 0;
    for (const Term& term : terms) {
        if (term.op == Expression::Op::Source) {
            std::optional<std::int64_t> value = read(term);
            if (!value) return std::nullopt;
            stack[depth++] = *value;
            continue;
        }
        if (term.op == Expression::Op::Constant) {
            stack[depth++] = term.constant.integer();
            continue;
        }
        const std::int64_t right = takes_two(term.op) ? stack[--depth] : 0;
        std::optional<std::int64_t> value = apply(term.op, stack[depth - 1], right);
        if (!value) return std::nullopt;
        stack[depth - 1] = *value;
    }
    return stack[0];
}

/// `2 * s0`.
std::string print_by_symbols(const Expression& expression);
/// `(L['i'] + 1) % 4 == 0`.
std::string print(std::span<const Term> terms, const std::function<std::string(const Term&)>& print_source);

}  // namespace stator
