#include "number/dim.h"

#include "base/check.h"
#include "number/expressions.h"
#include "number/nested_int.h"

namespace stator {

namespace {

using Op = Expression::Op;

Expressions& table_of(Dim left, Dim right) {
    return *(left.is_constant() ? right : left).expression()->table;
}

bool is_open(Op comparison, Dim left, Dim right) {
    if (!left.is_unbacked() && !right.is_unbacked()) return false;
    Expressions& table = table_of(left, right);
    return !table.decided(comparison, left.in(table), right.in(table));
}

bool require(Op comparison, Dim left, Dim right) {
    Expressions& table = table_of(left, right);
    return table.require(comparison, left.in(table), right.in(table));
}

}  // namespace

const Expression* Dim::in(Expressions& table) const {
    return is_constant() ? table.constant(bits_) : expression();
}

bool known_equal(Dim left, Dim right) {
    return left.identity() == right.identity() || (!is_open(Op::Equal, left, right) && left == right);
}

bool known_less(Dim left, Dim right) {
    return !is_open(Op::Less, left, right) && left < right;
}

bool typically_less(Dim left, Dim right) {
    return is_open(Op::Less, left, right) ? left.hint() < right.hint() : left < right;
}

bool require_equal(Dim left, Dim right) {
    if (!left.is_unbacked() && !right.is_unbacked()) return left == right;
    return left.identity() == right.identity() || require(Op::Equal, left, right);
}

bool require_less_equal(Dim left, Dim right) {
    if (!left.is_unbacked() && !right.is_unbacked()) return left <= right;
    return require(Op::LessEqual, left, right);
}

Dim unbacked_size(Expressions& table, Range range) {
    return Dim::of(table.resolved(table.unbacked(/*is_float=*/false, range)));
}

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
    return table.decide(comparison, left.in(table), right.in(table));
}

Dim Dim::compute(Op op, Dim left, Dim right) {
    if (are_constant(left, right)) throw SizeOverflow();
    Expressions& table = table_of(left, right);
    if (const Expression* result = table.apply(op, left.in(table), right.in(table)))
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
    if (nested_int::is(dim)) return "j" + std::to_string(nested_int::id(dim));
    return dim.is_constant() ? std::to_string(dim.value()) : print_by_symbols(*dim.expression());
}

}  // namespace stator
