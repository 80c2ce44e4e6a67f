/// Which operations of expressions are conditions: true or false, not a number.
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

}  // namespace stator
