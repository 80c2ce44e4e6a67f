/// Arithmetic over ints that came from outside and change from call to call. An expression says how a value of the
/// program follows from them: the guard program computes it in 64 bits, the plan and the graph as Python does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stator {

struct Source;

struct Expression {
    enum class Op : std::uint8_t {
        Source,    // an int from outside
        Constant,  // `constant`
        Add,
        Subtract,
        Multiply,
        FloorDivide,  // as Python rounds: down
        Remainder,    // with the sign of the divisor, as in Python
        Power,        // by a constant that is not negative
        LeftShift,    // by a constant that is not negative
        RightShift,   // likewise
        And,
        Or,
        Xor,
        Negative,
        Invert,
        // What a guard can ask. In the order of Python's comparisons.
        Less,
        LessEqual,
        Equal,
        NotEqual,
        Greater,
        GreaterEqual,
        Fits,  // into 64 bits, and so does everything it is computed from
    };

    Op op = Op::Constant;
    Source* source = nullptr;
    std::int64_t constant = 0;
    const Expression* left = nullptr;
    const Expression* right = nullptr;  // null where the operation takes one operand
    /// Of the whole tree. Nothing recurses into more than `kLargest`.
    std::uint32_t size = 1;

    static constexpr std::uint32_t kLargest = 64;
};

/// `left op right` in 64 bits; `right` is not looked at where the operation takes one. Empty where the result does not
/// fit, or Python would raise.
std::optional<std::int64_t> apply(Expression::Op op, std::int64_t left, std::int64_t right);

bool takes_two(Expression::Op op);
/// The comparison that is true where this one is false.
Expression::Op inverted(Expression::Op comparison);
const char* symbol(Expression::Op op);

/// One operation of an expression with its operands before it, for a machine with a stack.
struct Term {
    Expression::Op op;
    std::int32_t place = -1;  // of a source: its register
    std::int64_t constant = 0;
    Source* source = nullptr;

    friend bool operator==(const Term& one, const Term& other) {
        return one.op == other.op && one.place == other.place && one.constant == other.constant;
    }
};

std::vector<Term> terms_of(const Expression& expression);

/// The result, with what `read` gives for sources; empty where that is empty or something does not fit.
template <class Read>
std::optional<std::int64_t> evaluate(std::span<const Term> terms, const Read& read) {
    std::int64_t stack[Expression::kLargest + 2];
    std::size_t depth = 0;
    for (const Term& term : terms) {
        std::optional<std::int64_t> value;
        if (term.op == Expression::Op::Source) {
            value = read(term);
        } else if (term.op == Expression::Op::Constant) {
            value = term.constant;
        } else {
            std::int64_t right = takes_two(term.op) ? stack[--depth] : 0;
            std::int64_t left = stack[--depth];
            value = apply(term.op, left, right);
        }
        if (!value) return std::nullopt;
        stack[depth++] = *value;
    }
    return stack[0];
}

/// `(L['i'] + 1) % 4 == 0`.
std::string print(const Expression& expression);
std::string print(std::span<const Term> terms, const std::function<std::string(const Term&)>& print_source);

}  // namespace stator
