#include "number/expression.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/imported.h"
#include "number/conditions.h"
#include "number/float_arithmetic.h"

namespace stator {

namespace {

using Op = Expression::Op;

std::optional<std::int64_t> power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) return std::nullopt;
    std::int64_t result = 1;
    // The general loop would take time proportional to the exponent.
    if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    for (; exponent > 0; --exponent)
        if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
    return result;
}

std::optional<std::int64_t> floor_divide(std::int64_t left, std::int64_t right) {
    if (right == 0 || (right == -1 && left == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
    std::int64_t quotient = left / right;
    return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

std::optional<std::int64_t> remainder(std::int64_t left, std::int64_t right) {
    if (right == 0) return std::nullopt;
    if (right == -1) return 0;
    std::int64_t rest = left % right;
    return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

std::optional<std::int64_t> left_shift(std::int64_t left, std::int64_t count) {
    if (count < 0 || count > 62) return std::nullopt;
    std::int64_t result = 0;
    if (__builtin_mul_overflow(left, std::int64_t{1} << count, &result)) return std::nullopt;
    return result;
}

}  // namespace

std::optional<std::int64_t> apply(Op op, std::int64_t left, std::int64_t right) {
    if (is_comparison(op)) return compare(op, left, right);
    std::int64_t result = 0;
    switch (op) {
        case Op::Add:
            if (__builtin_add_overflow(left, right, &result)) return std::nullopt;
            return result;
        case Op::Subtract:
            if (__builtin_sub_overflow(left, right, &result)) return std::nullopt;
            return result;
        case Op::Multiply:
            if (__builtin_mul_overflow(left, right, &result)) return std::nullopt;
            return result;
        case Op::FloorDivide:
            return floor_divide(left, right);
        case Op::Remainder:
            return remainder(left, right);
        case Op::Power:
            return power(left, right);
        case Op::LeftShift:
            return left_shift(left, right);
        case Op::RightShift:
            if (right < 0) return std::nullopt;
            return left >> (right > 63 ? 63 : right);
        case Op::And:
            return left & right;
        case Op::Or:
            return left | right;
        case Op::Xor:
            return left ^ right;
        case Op::Negative:
            if (__builtin_sub_overflow(std::int64_t{0}, left, &result)) return std::nullopt;
            return result;
        case Op::Invert:
            return ~left;
        case Op::Absolute:
            return left < 0 ? apply(Op::Negative, left, 0) : left;
        case Op::Minimum:
            return std::min(left, right);
        case Op::Maximum:
            return std::max(left, right);
        case Op::Truncate:
        case Op::Round:
        case Op::Floor:
        case Op::Ceiling:
            return left;
        case Op::Same:
            return left == right;
        case Op::Not:
            return left == 0;
        case Op::Fits:
            return 1;
        default:
            STATOR_CHECK(false, "not an operation on ints");
    }
}

std::optional<Number> apply(Op op, Number left, Number right) {
    if (op == Op::Same) return Number::of_int(left == right);
    if (op == Op::Fits) return Number::of_int(1);
    if (op == Op::TrueDivide || is_float_function(op) || left.is_float() || right.is_float())
        return apply_to_floats(op, left, right);
    auto result = apply(op, left.integer(), right.integer());
    return result ? std::optional(Number::of_int(*result)) : std::nullopt;
}

bool takes_two(Op op) {
    if (is_function(op)) return op == Op::Minimum || op == Op::Maximum;
    return op != Op::Negative && op != Op::Invert && op != Op::Not && op != Op::Fits;
}

Op inverted(Op comparison) {
    switch (comparison) {
        case Op::Less:
            return Op::GreaterEqual;
        case Op::LessEqual:
            return Op::Greater;
        case Op::Equal:
            return Op::NotEqual;
        case Op::NotEqual:
            return Op::Equal;
        case Op::Greater:
            return Op::LessEqual;
        case Op::GreaterEqual:
            return Op::Less;
        default:
            STATOR_CHECK(false, "only comparisons can be inverted");
    }
}

const char* symbol(Op op) {
    static constexpr const char* kSymbols[] = {
#define EXPRESSION_OP(name, symbol) symbol,
#include "number/expression_ops.def"
#undef EXPRESSION_OP
    };
    return kSymbols[static_cast<std::size_t>(op)];
}

PyObject* python_function(Op function) {
    static PyObject* known[static_cast<std::size_t>(Op::Log2) + 1] = {};
    STATOR_CHECK(is_function(function), "not a function");
    PyObject*& found = known[static_cast<std::size_t>(function)];
    if (found == nullptr) {
        std::string name = symbol(function);
        auto dot = name.find('.');
        found = dot == std::string::npos ? imported("builtins", name.c_str()) : imported("math", &name[dot + 1]);
    }
    return found;
}

namespace {

void add_terms(std::vector<Term>& terms, const Expression& expression) {
    if (expression.left != nullptr) add_terms(terms, *expression.left);
    if (expression.right != nullptr) add_terms(terms, *expression.right);
    terms.push_back(
        {expression.op, expression.is_float, -1, -1, expression.constant, expression.source, expression.symbol});
}

}  // namespace

std::vector<Term> terms_of(const Expression& expression) {
    // A condition has two of the largest as operands, and may be negated. Its evaluation needs no more room on the
    // stack: of an operation with two operands, the left one leaves a single number.
    STATOR_CHECK(expression.size <= 2 * Expression::kLargest + 2, "an expression is too large");
    std::vector<Term> terms;
    terms.reserve(expression.size);
    add_terms(terms, expression);
    return terms;
}

Condition::Condition(std::vector<Term> of) : terms(std::move(of)) {
    is_of_ints = std::ranges::all_of(terms, [](const Term& term) {
        const bool has_own_rule = term.op == Op::Same || term.op == Op::Not || term.op == Op::Fits;
        return !term.is_float && !has_own_rule && term.op != Op::TrueDivide && !is_float_function(term.op);
    });
}

std::string print(std::span<const Term> terms, const std::function<std::string(const Term&)>& print_source) {
    struct Part {
        std::string text;
        bool is_compound;
    };
    std::vector<Part> parts;
    auto take = [&](bool in_brackets) {
        Part part = std::move(parts.back());
        parts.pop_back();
        return in_brackets && part.is_compound ? "(" + part.text + ")" : part.text;
    };
    for (const Term& term : terms) {
        if (term.op == Op::Source || term.op == Op::Unbacked) {
            parts.push_back({print_source(term), false});
        } else if (term.op == Op::Constant) {
            parts.push_back({print(term.constant), false});
        } else if (term.op == Op::Fits) {
            parts.push_back({take(true) + " fits into 64 bits", true});
        } else if (term.op == Op::Not) {
            parts.push_back({"not (" + take(false) + ")", false});
        } else if (is_function(term.op)) {
            std::string operands = take(false);
            if (takes_two(term.op)) operands = take(false) + ", " + operands;
            parts.push_back({std::string(symbol(term.op)) + "(" + operands + ")", false});
        } else if (!takes_two(term.op)) {
            parts.push_back({symbol(term.op) + take(true), true});
        } else {
            const bool is_whole = is_condition(term.op);
            std::string right = take(!is_whole), left = take(!is_whole);
            parts.push_back({left + " " + symbol(term.op) + " " + right, true});
        }
    }
    return parts.back().text;
}

std::string print_by_symbols(const Expression& expression) {
    // As PyTorch names them: `zuf0` is a float that has no hint.
    return print(terms_of(expression), [](const Term& term) {
        const char* kind = term.op != Op::Unbacked ? "s" : term.is_float ? "zuf" : "u";
        return kind + std::to_string(term.symbol);
    });
}

}  // namespace stator
