#include "value/kinds/changing_number.h"

#include <algorithm>
#include <cmath>

#include "base/python_error.h"
#include "value/kinds/sequence.h"
#include "value/kinds/slice.h"
#include "value/recorder.h"
#include "value/tensor/tensor.h"

namespace stator::symbolic {

namespace {

using Op = Expression::Op;

Number seen(const ConstantValue* value) {
    return *Number::of(value->held);
}

const Expression* constant(Tracer& tracer, Number number) {
    auto* expression = tracer.arena().make<Expression>();
    expression->constant = number;
    expression->is_float = number.is_float();
    return expression;
}

const Expression* joined(Tracer& tracer, Op op, const Expression* left, const Expression* right = nullptr) {
    auto* expression = tracer.arena().make<Expression>();
    expression->op = op;
    // The class of the result of a comparison does not matter: only guards use comparisons.
    expression->is_float = op == Op::TrueDivide || left->is_float || (right != nullptr && right->is_float);
    expression->left = left;
    expression->right = right;
    expression->size = 1 + left->size + (right == nullptr ? 0 : right->size);
    return expression;
}

/// Folds `(i + 1) + 1` into `i + 2`, for counters. Only for ints, because floats are rounded at each step.
const Expression* sum(Tracer& tracer, const Expression* left, const Expression* right) {
    if (left->op == Op::Constant) std::swap(left, right);
    if (left->op == Op::Add && left->right->op == Op::Constant && right->op == Op::Constant)
        if (auto total = apply(Op::Add, left->right->constant, right->constant)) {
            if (total->integer() == 0) return left->left;
            return joined(tracer, Op::Add, left->left, constant(tracer, *total));
        }
    return joined(tracer, Op::Add, left, right);
}

const Expression* combined(Tracer& tracer, Op op, const Expression* left, const Expression* right) {
    if (left->is_float || right->is_float) return joined(tracer, op, left, right);
    if (op == Op::Add) return sum(tracer, left, right);
    if (op == Op::Subtract && right->op == Op::Constant)
        if (auto negated = apply(Op::Negative, right->constant)) return sum(tracer, left, constant(tracer, *negated));
    return joined(tracer, op, left, right);
}

/// A source in the expression. There is always one: an expression without sources is folded.
Source* some_source(const Expression& expression) {
    if (expression.op == Op::Source) return expression.source;
    Source* found = expression.left == nullptr ? nullptr : some_source(*expression.left);
    return found != nullptr || expression.right == nullptr ? found : some_source(*expression.right);
}

void guard(Tracer& tracer, const Expression* condition) {
    tracer.guard({.kind = GuardKind::Expression, .source = some_source(*condition), .expression = condition});
}

/// Guards that a comparison has the same result as in this trace.
void guard_outcome(Tracer& tracer, bool holds, Op comparison, const Expression* left, const Expression* right) {
    bool has_opposite = comparison == Op::Equal || comparison == Op::NotEqual || !(left->is_float || right->is_float);
    if (!holds && has_opposite) comparison = inverted(comparison);
    const Expression* condition = joined(tracer, comparison, left, right);
    guard(tracer, holds || has_opposite ? condition : joined(tracer, Op::Not, condition));
}

/// Compares a symbolic number with a constant, guards the result and returns it.
bool decide(Tracer& tracer, Op comparison, const ConstantValue* left, std::int64_t right) {
    Number number = Number::of_int(right);
    bool holds = *apply(comparison, seen(left), number) == Number::of_int(1);
    guard_outcome(tracer, holds, comparison, left->expression, constant(tracer, number));
    return holds;
}

/// An operand: a symbolic number or a constant. Null for any other value.
struct Operand {
    ConstantValue* value = nullptr;
    const Expression* expression = nullptr;
    bool varies = false;
};

Operand operand(Tracer& tracer, Value* value) {
    auto* held = cast<ConstantValue>(value);
    if (held == nullptr) return {};
    if (held->is_symbolic()) {
        realize_class(tracer, held);
        return {held, held->expression, true};
    }
    auto number = Number::of(held->held);
    if (!number) return {};
    tracer.realize(held);
    return {held, constant(tracer, *number), false};
}

std::optional<Op> expressed(BinaryOperator op) {
    switch (op) {
        case BinaryOperator::Add:
            return Op::Add;
        case BinaryOperator::And:
            return Op::And;
        case BinaryOperator::FloorDivide:
            return Op::FloorDivide;
        case BinaryOperator::LeftShift:
            return Op::LeftShift;
        case BinaryOperator::Multiply:
            return Op::Multiply;
        case BinaryOperator::Remainder:
            return Op::Remainder;
        case BinaryOperator::Or:
            return Op::Or;
        case BinaryOperator::Power:
            return Op::Power;
        case BinaryOperator::RightShift:
            return Op::RightShift;
        case BinaryOperator::Subtract:
            return Op::Subtract;
        case BinaryOperator::TrueDivide:
            return Op::TrueDivide;
        case BinaryOperator::Xor:
            return Op::Xor;
        case BinaryOperator::MatrixMultiply:
            break;
    }
    return std::nullopt;
}

/// Whether the operation can neither raise nor return a number of another class, in this call or in later ones. Adds
/// guards for the latter.
bool is_safe(Tracer& tracer, Op op, const Operand& left, const Operand& right) {
    bool is_of_ints = !left.expression->is_float && !right.expression->is_float;
    switch (op) {
        case Op::Power:
        case Op::LeftShift:
        case Op::RightShift:
            return !is_of_ints || (!right.varies && seen(right.value).integer() >= 0);
        case Op::TrueDivide:
        case Op::FloorDivide:
        case Op::Remainder:
            if (right.varies) decide(tracer, Op::NotEqual, right.value, 0);
            return true;
        default:
            return true;
    }
}

/// Whether the result is a float for some operands only: an int may be too large for a float, and a power may be of any
/// class.
bool may_not_fit(Op op, const Operand& left, const Operand& right) {
    auto is_variable_int = [](const Operand& operand) { return operand.varies && !operand.expression->is_float; };
    return op == Op::Power || is_variable_int(left) || is_variable_int(right);
}

Value* result(Tracer& tracer, const Expression* expression, Number number) {
    auto* value = static_cast<ConstantValue*>(tracer.fresh(number.object()));
    value->expression = expression;
    value->realized = false;
    return value;
}

}  // namespace

void make_variable(Tracer& tracer, ConstantValue* value) {
    auto number = Number::of(value->held);
    if (!number) return;
    auto* expression = tracer.arena().make<Expression>();
    expression->op = Op::Source;
    expression->is_float = number->is_float();
    expression->source = value->source;
    value->expression = expression;
}

void realize_class(Tracer& tracer, Value* value) {
    if (!is(value)) return tracer.realize(value);
    if (value->source != nullptr)
        tracer.guard({GuardKind::Type, value->source, reinterpret_cast<PyObject*>(value->type())});
}

void specialize(Tracer& tracer, ConstantValue* value) {
    Op comparison = value->expression->is_float ? Op::Same : Op::Equal;
    guard(tracer, joined(tracer, comparison, value->expression, constant(tracer, seen(value))));
}

void guard_fits(Tracer& tracer, ConstantValue* value) {
    guard(tracer, joined(tracer, Op::Fits, value->expression));
}

bool guard_moderate(Tracer& tracer, ConstantValue* value) {
    constexpr double kLargestHalf = 65504;
    if (value->expression->size >= Expression::kLargest || !(std::fabs(seen(value).real()) <= kLargestHalf))
        return false;
    const Expression* size = joined(tracer, Op::Absolute, value->expression);
    guard(tracer, joined(tracer, Op::LessEqual, size, constant(tracer, Number::of_float(kLargestHalf))));
    return true;
}

Value* binary(Tracer& tracer, BinaryOperator op, Value* left, Value* right) {
    if (!is(left) && !is(right)) return nullptr;
    auto arithmetic = expressed(op);
    if (!arithmetic) return nullptr;
    Operand one = operand(tracer, left), other = operand(tracer, right);
    if (one.value == nullptr || other.value == nullptr) return nullptr;
    if (one.expression->size + other.expression->size >= Expression::kLargest) return nullptr;
    auto number = apply(*arithmetic, seen(one.value), seen(other.value));
    if (!number || !is_safe(tracer, *arithmetic, one, other)) return nullptr;
    const Expression* expression = combined(tracer, *arithmetic, one.expression, other.expression);
    if (expression->is_float && may_not_fit(*arithmetic, one, other))
        guard(tracer, joined(tracer, Op::Fits, expression));
    return result(tracer, expression, *number);
}

namespace {

Value* of_one(Tracer& tracer, Op op, Value* value) {
    Operand one = operand(tracer, value);
    auto number = apply(op, seen(one.value));
    if (!number || one.expression->size >= Expression::kLargest) return nullptr;
    return result(tracer, joined(tracer, op, one.expression), *number);
}

}  // namespace

Value* unary(Tracer& tracer, UnaryOperator op, Value* value) {
    if (!is(value)) return nullptr;
    if (op == UnaryOperator::Positive) {
        realize_class(tracer, value);
        return value;
    }
    return of_one(tracer, op == UnaryOperator::Negative ? Op::Negative : Op::Invert, value);
}

Value* compare(Tracer& tracer, Comparison op, Value* left, Value* right) {
    if (!is(left) && !is(right)) return nullptr;
    Operand one = operand(tracer, left), other = operand(tracer, right);
    if (one.value == nullptr || other.value == nullptr) return nullptr;
    if (one.expression->size + other.expression->size >= Expression::kLargest) return nullptr;
    auto comparison = static_cast<Op>(static_cast<int>(Op::Less) + static_cast<int>(op));
    auto outcome = apply(comparison, seen(one.value), seen(other.value));
    if (!outcome) return nullptr;
    bool holds = *outcome == Number::of_int(1);
    guard_outcome(tracer, holds, comparison, one.expression, other.expression);
    return tracer.boolean(holds);
}

Value* truth(Tracer& tracer, Value* value) {
    if (!is(value)) return nullptr;
    return tracer.boolean(decide(tracer, Op::NotEqual, operand(tracer, value).value, 0));
}

Value* absolute(Tracer& tracer, Value* value) {
    return is(value) ? of_one(tracer, Op::Absolute, value) : nullptr;
}

void realize_all(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (SequenceValue* sequence = as_sequence(value))
        for (Value* part : sequence->all(tracer)) realize_all(tracer, part);
    if (auto* slice = cast<SliceValue>(value))
        for (Value* end : {slice->start, slice->stop, slice->step}) tracer.realize(end);
}

namespace {

/// Whether a part of a key takes exactly one dimension, whatever its value.
bool takes_one_dimension(const Value* part) {
    if (part->kind == Kind::Slice) return true;
    return part->kind == Kind::Constant && PyLong_CheckExact(static_cast<const ConstantValue*>(part)->held);
}

/// Whether all parts of a key are ints, slices, None or Ellipsis. With tensors among them, the dimensions that ints
/// select would move.
bool is_basic(const std::vector<Value*>& parts) {
    for (const Value* part : parts)
        if (!takes_one_dimension(part) && part->object() != Py_None && part->object() != Py_Ellipsis) return false;
    return true;
}

/// Guards that an int is within the bounds of a dimension. False if it is out of bounds now.
bool guard_bounds(Tracer& tracer, const TensorValue* tensor, ConstantValue* index, std::size_t dimension) {
    std::int64_t number = seen(index).integer();
    const auto& sizes = tensor->meta->sizes;
    std::int64_t size = dimension < sizes.size() && sizes[dimension].is_known() ? sizes[dimension].value() : 0;
    if (number >= size || number < -size) return false;
    realize_class(tracer, index);
    // PyTorch treats indices from the end differently from those from the start: each sign gets its own entry.
    decide(tracer, Op::GreaterEqual, index, number < 0 ? -size : 0);
    decide(tracer, Op::Less, index, number < 0 ? 0 : size);
    return true;
}

bool is_whole(Tracer& tracer, Value* part) {
    auto* slice = cast<SliceValue>(part);
    if (slice == nullptr) return false;
    for (Value* end : {slice->start, slice->stop, slice->step}) {
        tracer.realize(end);
        if (end->object() != Py_None) return false;
    }
    return true;
}

}  // namespace

namespace {

/// A slice whose two ends both change from call to call, as in a write to a cache at its position.
bool is_moving(const Value* part) {
    auto* slice = cast<SliceValue>(part);
    return slice != nullptr && is(slice->start) && is(slice->stop) && slice->step->object() == Py_None;
}

/// The length of a moving slice. Guards that length, and that the slice lies within the dimension. -1 if it does not
/// now.
std::int64_t guard_length(Tracer& tracer, const TensorValue* tensor, const SliceValue* slice, std::size_t dimension) {
    auto* start = static_cast<ConstantValue*>(slice->start);
    auto* stop = static_cast<ConstantValue*>(slice->stop);
    if (!PyLong_CheckExact(start->held) || !PyLong_CheckExact(stop->held)) return -1;
    std::int64_t first = seen(start).integer(), length = seen(stop).integer() - first;
    const auto& sizes = tensor->meta->sizes;
    std::int64_t size = dimension < sizes.size() && sizes[dimension].is_known() ? sizes[dimension].value() : -1;
    if (first < 0 || length < 0 || first + length > size) return -1;
    auto* difference = cast<ConstantValue>(binary(tracer, BinaryOperator::Subtract, stop, start));
    if (difference == nullptr || !is(difference)) return -1;
    realize_class(tracer, start);
    realize_class(tracer, stop);
    decide(tracer, Op::GreaterEqual, start, 0);
    decide(tracer, Op::LessEqual, start, size - length);
    decide(tracer, Op::Equal, difference, length);
    return length;
}

}  // namespace

Selected select(Tracer& tracer, TensorValue* tensor, Value* key) {
    std::vector<Value*> parts;
    if (is(key) || is_moving(key)) {
        parts.push_back(key);
    } else if (auto* tuple = cast<TupleValue>(key); tuple != nullptr && tuple->class_ == &PyTuple_Type) {
        parts = tuple->all(tracer);
        if (std::ranges::none_of(parts, [](const Value* part) { return is(part) || is_moving(part); }))
            return {tensor, key};
    } else {
        realize_all(tracer, key);
        return {tensor, key};
    }
    std::size_t known = 0;  // how many parts at the start take one dimension each
    while (known < parts.size() && takes_one_dimension(parts[known])) ++known;
    if (!is_basic(parts)) known = 0;
    std::vector<Value*> rest;
    std::vector<std::size_t> selected;
    bool is_narrowed = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i < known && is(parts[i]) && guard_bounds(tracer, tensor, static_cast<ConstantValue*>(parts[i]), i)) {
            selected.push_back(i);
            continue;
        }
        if (i < known && is_moving(parts[i])) {
            auto* slice = static_cast<SliceValue*>(parts[i]);
            if (std::int64_t length = guard_length(tracer, tensor, slice, i); length >= 0) {
                tensor = tracer.recorder().emit_narrow(tensor, static_cast<std::int64_t>(i), slice->start, length);
                rest.push_back(tracer.make<SliceValue>(tracer.none(), tracer.none(), tracer.none()));
                is_narrowed = true;
                continue;
            }
        }
        realize_all(tracer, parts[i]);
        rest.push_back(parts[i]);
    }
    // From last to first, so that the earlier dimensions keep their positions.
    for (auto dimension = selected.rbegin(); dimension != selected.rend(); ++dimension)
        tensor = tracer.recorder().emit_select(tensor, static_cast<std::int64_t>(*dimension), parts[*dimension]);
    bool is_done = (!selected.empty() || is_narrowed) &&
                   std::ranges::all_of(rest, [&](Value* part) { return is_whole(tracer, part); });
    return {tensor, is_done ? nullptr : rest.size() == 1 ? rest[0] : make_tuple(tracer, std::move(rest))};
}

}  // namespace stator::symbolic
