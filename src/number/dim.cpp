#include "number/dim.h"

#include "base/check.h"
#include "number/expressions.h"

namespace stator {

namespace {

using Op = Expression::Op;

Expressions& table_of(Dim left, Dim right) {
    return *(left.is_constant() ? right : left).expression()->table;
}

const Expression* in(Expressions& table, Dim number) {
    return number.is_constant() ? table.constant(number.value()) : number.expression();
}

}  // namespace

Dim Dim::of(const Expression* expression) {
    STATOR_DCHECK(!expression->is_float, "a size is a whole number");
    Dim dim;
    if (expression->op == Op::Constant) {
        dim.bits_ = expression->constant.integer();
        if (!can_hold(dim.bits_)) throw SizeOverflow();
    } else {
        dim.bits_ = reinterpret_cast<std::int64_t>(expression) ^ kTag;
    }
    return dim;
}

bool Dim::decide(Op comparison, Dim left, Dim right) {
    Expressions& table = table_of(left, right);
    return table.decide(comparison, in(table, left), in(table, right));
}

Dim Dim::compute(Op op, Dim left, Dim right) {
    if (are_constant(left, right)) throw SizeOverflow();
    Expressions& table = table_of(left, right);
    if (const Expression* result = table.apply(op, in(table, left), in(table, right)))
        return Dim::of(table.resolved(result));
    auto number = apply(op, left.value(), right.value());
    if (!number || !can_hold(*number)) throw SizeOverflow();
    return *number;
}

std::int64_t Dim::specialized() const {
    return expression()->table->specialize(expression());
}

std::int64_t Dim::hint_of_expression() const {
    return expression()->hint.integer();
}

std::string print(Dim dim) {
    return dim.is_constant() ? std::to_string(dim.value()) : print_by_symbols(*dim.expression());
}

}  // namespace stator
