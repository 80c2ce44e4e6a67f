/// Which operations of expressions are conditions: true or false, not a number; and what expressions are made of.
#pragma once

#include "number/expression.h"

namespace stator {

constexpr bool is_condition(Expression::Op op) {
    return op >= Expression::Op::Less;
}

/// `<`, `<=`, `==`, `!=`, `>` or `>=`.
constexpr bool is_comparison(Expression::Op op) {
    return Expression::Op::Less <= op && op <= Expression::Op::GreaterEqual;
}

inline bool contains(const Expression& expression, const Expression* variable) {
    return &expression == variable || (expression.left != nullptr && contains(*expression.left, variable)) ||
           (expression.right != nullptr && contains(*expression.right, variable));
}

}  // namespace stator
