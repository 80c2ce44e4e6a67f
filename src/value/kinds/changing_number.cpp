#include "value/kinds/changing_number.h"

#include <algorithm>
#include <cmath>

#include "base/imported.h"
#include "base/python_error.h"
#include "number/conditions.h"
#include "number/dim.h"
#include "number/expressions.h"
#include "value/kinds/sequence.h"
#include "value/kinds/slice.h"
#include "value/recorder.h"
#include "value/tensor/tensor.h"

namespace stator::symbolic {

namespace {

using Op = Expression::Op;

/// The number in the call that is traced.
Number traced_number(const ConstantValue* value) {
    return *Number::of(value->held);
}

/// Guards that a comparison comes out as it does in this trace, and says how.
bool decide(Tracer& tracer, Op comparison, const Expression* left, const Expression* right) {
    Expressions& numbers = tracer.numbers();
    if (!left->is_float && !right->is_float) return numbers.decide(comparison, left, right);
    if (left->is_unbacked || right->is_unbacked) numbers.assume(numbers.condition(comparison, left, right));
    bool holds = *apply(comparison, left->hint, right->hint) == Number::of_int(1);
    // With a NaN all orderings are false.
    bool has_opposite = comparison == Op::Equal || comparison == Op::NotEqual;
    if (!holds && has_opposite) comparison = inverted(comparison);
    const Expression* condition = numbers.condition(comparison, left, right);
    numbers.assume(holds || has_opposite ? condition : numbers.condition(Op::Not, condition));
    return holds;
}

/// The same of a value and an int that is known.
bool decide(Tracer& tracer, Op comparison, const ConstantValue* left, std::int64_t right) {
    return decide(tracer, comparison, left->expression, tracer.numbers().constant(right));
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
    if (PyBool_Check(held->held)) tracer.realize(held);
    if (held->is_symbolic()) {
        realize_class(tracer, held);
        return {held, held->expression, true};
    }
    auto number = Number::of(held->held);
    if (!number) return {};
    tracer.realize(held);
    return {held, tracer.numbers().constant(*number), false};
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

/// Whether the graph checks that an int which only it knows is not 0. If it is, the program runs uncompiled, and
/// raises.
bool is_checked_divisor(Tracer& tracer, const Operand& divisor) {
    if (!divisor.expression->is_unbacked || divisor.expression->is_float) return false;
    Expressions& numbers = tracer.numbers();
    if (numbers.decided(Op::NotEqual, divisor.expression, numbers.constant(0)).has_value()) return false;
    static PyObject* const check = imported("torch", "_check");
    const Expression* condition = numbers.condition(Op::NotEqual, divisor.expression, numbers.constant(0));
    tracer.recorder().emit_check(check, Arguments::of(static_cast<Value*>(value_of(tracer, condition))));
    numbers.learn(*condition);
    return true;
}

/// Whether the operation can neither raise nor return a number of another class, in this call or in later ones. Adds
/// guards for the latter.
bool is_safe(Tracer& tracer, Op op, const Operand& left, const Operand& right) {
    bool is_of_ints = !left.expression->is_float && !right.expression->is_float;
    switch (op) {
        case Op::Power:
        case Op::LeftShift:
        case Op::RightShift:
            // (Of a negative number it may be a complex one.)
            if (!is_of_ints && (left.expression->is_unbacked || right.expression->is_unbacked)) return false;
            return !is_of_ints || (!right.varies && traced_number(right.value).integer() >= 0);
        case Op::TrueDivide:
        case Op::FloorDivide:
        case Op::Remainder:
            if (right.varies && !is_checked_divisor(tracer, right)) decide(tracer, Op::NotEqual, right.value, 0);
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

Op expressed(Comparison comparison) {
    return static_cast<Op>(static_cast<int>(Op::Less) + static_cast<int>(comparison));
}

}  // namespace

ConstantValue* value_of(Tracer& tracer, const Expression* expression) {
    if (!is_condition(expression->op)) expression = tracer.numbers().resolved(expression);
    ConstantValue* value = is_condition(expression->op)
                               ? tracer.make<ConstantValue>(Py_False)
                               : static_cast<ConstantValue*>(tracer.fresh(expression->hint.object()));
    if (expression->op == Op::Constant) return value;
    value->expression = expression;
    value->realized = false;
    if (expression->is_unbacked) value->node = tracer.recorder().number_node(*expression);
    return value;
}

Value* condition(Tracer& tracer, Comparison op, Value* left, Value* right) {
    if (!is_unbacked(left) && !is_unbacked(right)) return nullptr;
    Operand one = operand(tracer, left), other = operand(tracer, right);
    if (one.value == nullptr || other.value == nullptr) return nullptr;
    const Op comparison = expressed(op);
    Expressions& numbers = tracer.numbers();
    if (!one.expression->is_float && !other.expression->is_float)
        if (auto known = numbers.decided(comparison, one.expression, other.expression)) return tracer.boolean(*known);
    return value_of(tracer, numbers.condition(comparison, one.expression, other.expression));
}

Value* truth_by_data(Tracer& tracer, Value* value) {
    if (!is_unbacked(value)) return nullptr;
    if (!PyBool_Check(value->object())) return condition(tracer, Comparison::NotEqual, value, tracer.integer(0));
    auto known = decided(tracer, value);
    return known ? tracer.boolean(*known) : value;
}

std::optional<bool> decided(Tracer& tracer, Value* condition) {
    const Expression& question = *static_cast<ConstantValue*>(condition)->expression;
    Expressions& numbers = tracer.numbers();
    if (!is_condition(question.op)) return numbers.decided(Op::NotEqual, &question, numbers.constant(0));
    if (!is_comparison(question.op) || question.left->is_float || question.right->is_float) return std::nullopt;
    return numbers.decided(question.op, question.left, question.right);
}

Value* inverted(Tracer& tracer, Value* condition) {
    const Expression& question = *static_cast<ConstantValue*>(condition)->expression;
    Expressions& numbers = tracer.numbers();
    if (!is_condition(question.op))
        return value_of(tracer, numbers.condition(Op::Equal, &question, numbers.constant(0)));
    const bool is_of_ints = is_comparison(question.op) && !question.left->is_float && !question.right->is_float;
    if (is_of_ints)
        return value_of(tracer, numbers.condition(stator::inverted(question.op), question.left, question.right));
    return value_of(tracer, numbers.condition(Op::Not, &question));
}

namespace {

/// The larger or the smaller of two ints, of which at least one is unbacked.
Value* extreme_by_data(Tracer& tracer, bool greatest, Value* left, Value* right) {
    Operand one = operand(tracer, left), other = operand(tracer, right);
    if (one.value == nullptr || other.value == nullptr) return nullptr;
    if (one.expression->is_float || other.expression->is_float) return nullptr;
    Expressions& numbers = tracer.numbers();
    // (The first of two equal ones.)
    const Op better = greatest ? Op::GreaterEqual : Op::LessEqual;
    if (auto known = numbers.decided(better, one.expression, other.expression)) return *known ? left : right;
    static PyObject* const functions[] = {imported("torch", "sym_min"), imported("torch", "sym_max")};
    ConstantValue* result = tracer.recorder().emit_number(graph::NodeKind::Function, functions[greatest],
                                                          Arguments::of(left, right), &PyLong_Type, {});
    if (result == nullptr) return nullptr;
    for (const Operand& each : {one, other})
        numbers.learn(*numbers.condition(better, result->expression, each.expression));
    return result;
}

}  // namespace

void make_variable(Tracer& tracer, ConstantValue* value, SymbolOrigin origin) {
    auto number = Number::of(value->held);
    if (!number) return;
    // Compilers compute with such floats by sympy, which has neither infinity nor NaN.
    if (tracer.run_by() == Tracer::RunBy::Compiler && number->is_float() && !std::isfinite(number->real())) return;
    value->expression = tracer.numbers().variable(value->source, *number);
    tracer.set_origin(value->expression, origin);
}

void realize_class(Tracer& tracer, Value* value) {
    if (!is(value)) return tracer.realize(value);
    if (value->source != nullptr)
        tracer.guard({GuardKind::Type, value->source, reinterpret_cast<PyObject*>(value->type())});
}

void specialize(Tracer& tracer, ConstantValue* value) {
    Expressions& numbers = tracer.numbers();
    if (value->expression->is_unbacked) {
        // The program may have checked that it is a certain number.
        const bool is_int = PyLong_CheckExact(value->held);
        const Expression* known = is_int ? numbers.resolved(value->expression) : nullptr;
        if (known == nullptr || known->op != Op::Constant) numbers.ask(*value->expression);
        value->held = tracer.keep(known->constant.object());
        return;
    }
    if (!value->expression->is_float) return static_cast<void>(numbers.specialize(value->expression));
    numbers.assume(numbers.condition(Op::Same, value->expression, numbers.constant(traced_number(value))));
}

namespace {

bool is_computed_from_sizes(const Expression& expression) {
    if (expression.op == Op::Source) return expression.source->access == Access::Size;
    if (expression.op == Op::Unbacked) return false;
    return (expression.left == nullptr || is_computed_from_sizes(*expression.left)) &&
           (expression.right == nullptr || is_computed_from_sizes(*expression.right));
}

}  // namespace

void guard_fits(Tracer& tracer, ConstantValue* value) {
    // Sizes fit. PyTorch rejects what is too large and computed from them, as it does uncompiled.
    if (value->expression->is_unbacked || is_computed_from_sizes(*value->expression)) return;
    tracer.numbers().assume(tracer.numbers().condition(Op::Fits, value->expression));
}

bool guard_moderate(Tracer& tracer, ConstantValue* value) {
    // PyTorch raises for a float that is too large, and the node may fail.
    if (value->expression->is_unbacked) return true;
    constexpr double kLargestHalf = 65504;
    if (value->expression->size >= Expression::kLargest || !(std::fabs(traced_number(value).real()) <= kLargestHalf))
        return false;
    Expressions& numbers = tracer.numbers();
    const Expression* size = numbers.apply(Op::Absolute, value->expression);
    if (size == nullptr) return false;
    numbers.assume(numbers.condition(Op::LessEqual, size, numbers.constant(Number::of_float(kLargestHalf))));
    return true;
}

Value* binary(Tracer& tracer, BinaryOperator op, Value* left, Value* right) {
    if (!is(left) && !is(right)) return nullptr;
    auto arithmetic = expressed(op);
    if (!arithmetic) return nullptr;
    Operand one = operand(tracer, left), other = operand(tracer, right);
    if (one.value == nullptr || other.value == nullptr) return nullptr;
    if (!is_safe(tracer, *arithmetic, one, other)) return nullptr;
    const Expression* expression = tracer.numbers().apply(*arithmetic, one.expression, other.expression);
    if (expression == nullptr) return nullptr;
    if (expression->is_float && !expression->is_unbacked && may_not_fit(*arithmetic, one, other))
        tracer.numbers().assume(tracer.numbers().condition(Op::Fits, expression));
    return value_of(tracer, expression);
}

namespace {

Value* of_one(Tracer& tracer, Op op, Value* value) {
    Operand one = operand(tracer, value);
    const Expression* expression = tracer.numbers().apply(op, one.expression);
    return expression == nullptr ? nullptr : value_of(tracer, expression);
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
    const Op comparison = expressed(op);
    if (one.expression->is_unbacked || other.expression->is_unbacked)
        return tracer.boolean(decide(tracer, comparison, one.expression, other.expression));
    if (!apply(comparison, traced_number(one.value), traced_number(other.value))) return nullptr;
    return tracer.boolean(decide(tracer, comparison, one.expression, other.expression));
}

Value* truth(Tracer& tracer, Value* value) {
    if (!is(value)) return nullptr;
    if (PyBool_Check(value->object())) {
        if (auto known = decided(tracer, value)) return tracer.boolean(*known);
        tracer.realize(value);
    }
    return tracer.boolean(decide(tracer, Op::NotEqual, operand(tracer, value).value, 0));
}

Value* absolute(Tracer& tracer, Value* value) {
    return is(value) ? of_one(tracer, Op::Absolute, value) : nullptr;
}

Value* extreme(Tracer& tracer, bool greatest, Value* left, Value* right) {
    if (!is(left) && !is(right)) return nullptr;
    if (is_unbacked(left) || is_unbacked(right)) return extreme_by_data(tracer, greatest, left, right);
    Operand one = operand(tracer, left), other = operand(tracer, right);
    if (one.value == nullptr || other.value == nullptr) return nullptr;
    // Which of two floats is returned shows: 0.0 or -0.0, a NaN or a number.
    if (one.expression->is_float || other.expression->is_float) return nullptr;
    const Expression* expression =
        tracer.numbers().apply(greatest ? Op::Maximum : Op::Minimum, one.expression, other.expression);
    return expression == nullptr ? nullptr : value_of(tracer, expression);
}

Value* function(Tracer& tracer, Op function, Value* value) {
    if (!is(value) || is_unbacked(value)) return nullptr;
    Operand one = operand(tracer, value);
    Expressions& numbers = tracer.numbers();
    const Expression* expression = numbers.apply(function, one.expression);
    if (expression == nullptr) return nullptr;
    // Python raises for some numbers. What is computed without the function has its own relations.
    const bool is_called = expression->op == function;
    if (is_called && (expression->is_float || one.expression->is_float))
        numbers.assume(numbers.condition(Op::Fits, expression));
    return value_of(tracer, expression);
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
    const auto& sizes = tensor->meta->sizes;
    if (dimension >= sizes.size()) return false;
    Dim number = Dim::of(index->expression), size = sizes[dimension];
    if (number.is_unbacked() || size.is_unbacked()) {
        realize_class(tracer, index);
        return true;
    }
    if (number.hint() >= size.hint() || number.hint() < -size.hint()) return false;
    realize_class(tracer, index);
    // PyTorch treats indices from the end differently from those from the start: each sign gets its own entry.
    return number < 0 ? Dim(0) - size <= number : number < size;
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

Selected select(Tracer& tracer, TensorValue* tensor, Value* key) {
    std::vector<Value*> parts;
    if (is(key)) {
        parts.push_back(key);
    } else if (auto* tuple = cast<TupleValue>(key); tuple != nullptr && tuple->class_ == &PyTuple_Type) {
        parts = tuple->all(tracer);
        if (std::ranges::none_of(parts, is)) return {tensor, key};
    } else {
        return {tensor, key};
    }
    std::size_t known = 0;  // how many parts from the start take one dimension each
    while (known < parts.size() && takes_one_dimension(parts[known])) ++known;
    if (!is_basic(parts)) known = 0;
    std::vector<Value*> rest;
    std::vector<std::size_t> selected;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i < known && is(parts[i]) && guard_bounds(tracer, tensor, static_cast<ConstantValue*>(parts[i]), i)) {
            selected.push_back(i);
            continue;
        }
        // The rule of `[]` adds the relations between a size and the ends of a slice.
        if (parts[i]->kind != Kind::Slice) realize_all(tracer, parts[i]);
        rest.push_back(parts[i]);
    }
    // From last to first, so that the earlier dimensions keep their positions.
    for (auto dimension = selected.rbegin(); dimension != selected.rend(); ++dimension)
        tensor = tracer.recorder().emit_select(tensor, static_cast<std::int64_t>(*dimension), parts[*dimension]);
    bool is_done = !selected.empty() && std::ranges::all_of(rest, [&](Value* part) { return is_whole(tracer, part); });
    return {tensor, is_done ? nullptr : rest.size() == 1 ? rest[0] : make_tuple(tracer, std::move(rest))};
}

}  // namespace stator::symbolic
