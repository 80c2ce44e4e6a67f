/// Module `operator` and `functools.reduce`.
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/builtins/registry.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/iterator.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/protocol/attributes.h"
#include "value/protocol/identity.h"
#include "value/protocol/index.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"

namespace stator {

namespace {

template <BinaryOperator op, bool in_place>
Outcome apply_binary(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 2 || !arguments.keywords.empty())
        refuse_arguments(tracer, operator_function(op, in_place), method_name(op, false), arguments);
    if (in_place) return operations::in_place(tracer, op, arguments.positional[0], arguments.positional[1]);
    return operations::binary(tracer, op, arguments.positional[0], arguments.positional[1]);
}

template <UnaryOperator op>
Outcome apply_unary(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 1 || !arguments.keywords.empty())
        refuse_arguments(tracer, operator_function(op), method_name(op), arguments);
    return operations::unary(tracer, op, arguments.positional[0]);
}

template <Comparison op>
Outcome apply_comparison(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 2 || !arguments.keywords.empty())
        refuse_arguments(tracer, operator_function(op), method_name(op), arguments);
    Value *left = arguments.positional[0], *right = arguments.positional[1];
    if (Value* unknown = symbolic::condition(tracer, op, left, right)) return unknown;
    return operations::compare(tracer, op, left, right);
}

template <BinaryOperator op>
void add_binary(Handlers& handlers) {
    handlers.add(operator_function(op, false), apply_binary<op, false>);
    handlers.add(operator_function(op, true), apply_binary<op, true>);
}

Outcome operator_truth(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "truth", arguments, 1, 1);
    return operations::truth(tracer, arguments.positional[0]);
}

Task negate(Tracer& tracer, Value* value) {
    Value* truth = co_await operations::truth(tracer, value);
    co_return tracer.boolean(!is_true(truth));
}

Outcome operator_not(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "not_", arguments, 1, 1);
    return tracer.start(negate(tracer, arguments.positional[0]));
}

Outcome operator_is(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "is_", arguments, 2, 2);
    return operations::is(tracer, arguments.positional[0], arguments.positional[1]);
}

Outcome operator_is_not(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "is_not", arguments, 2, 2);
    return tracer.boolean(!operations::same_object(tracer, arguments.positional[0], arguments.positional[1]));
}

Outcome operator_getitem(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "getitem", arguments, 2, 2);
    return operations::get_item(tracer, arguments.positional[0], arguments.positional[1]);
}

Outcome operator_setitem(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "setitem", arguments, 3, 3);
    return operations::set_item(tracer, arguments.positional[0], arguments.positional[1], arguments.positional[2]);
}

Outcome operator_delitem(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "delitem", arguments, 2, 2);
    return operations::delete_item(tracer, arguments.positional[0], arguments.positional[1]);
}

Outcome operator_contains(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "contains", arguments, 2, 2);
    return operations::contains(tracer, arguments.positional[0], arguments.positional[1]);
}

Task index_of(Tracer& tracer, Value* value) {
    Value* number = co_await operations::call_method(tracer, value, "__index__", Arguments::of());
    tracer.realize(number);
    if (number->type() == &PyLong_Type) co_return number;
    if (PyType_IsSubtype(number->type(), &PyLong_Type))
        tracer.break_graph(BreakKind::UnknownObject, "__index__ returns an instance of a subclass of int");
    tracer.raise(PyExc_TypeError, std::string("__index__ returned non-int (type ") + number->type()->tp_name + ")");
}

/// `operator.length_hint` of an object that has a length.
Outcome operator_length_hint(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "length_hint", arguments, 1, 2);
    Value* value = arguments.positional[0];
    tracer.realize(value);
    Ref<> missing =
        arguments.positional.size() > 1 ? arguments.positional[1]->as_constant(tracer) : checked(PyLong_FromLong(0));
    if (!missing || !PyLong_CheckExact(missing.get()) || !has_special_method(tracer, value->type(), "__len__"))
        tracer.break_graph(
            BreakKind::UnknownFunction,
            "operator.length_hint is called for an object without a length, or with a default that is not an int");
    return operations::length(tracer, value);
}

Outcome operator_index(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "index", arguments, 1, 1);
    Value* value = arguments.positional[0];
    symbolic::realize_class(tracer, value);
    if (symbolic::is(value) && value->type() == &PyLong_Type) return value;
    tracer.realize(value);
    if (value->kind == Kind::Constant && PyIndex_Check(value->object())) {
        Ref<> number = Ref<>::steal(PyNumber_Index(value->object()));
        if (!number) tracer.raise_from_python();
        if (number.get() == value->object()) return value;
        return tracer.fresh(std::move(number));
    }
    if (value->kind == Kind::Scalar) return unwrapped(tracer, value);
    if (has_index_method(value)) return tracer.start(index_of(tracer, value));
    raise_type_error(tracer, "", value, " object cannot be interpreted as an integer");
}

/// `operator.concat` rejects numbers.
void expect_sequence(Tracer& tracer, Value* left) {
    tracer.realize(left);
    PySequenceMethods* methods = left->type()->tp_as_sequence;
    if (methods == nullptr || methods->sq_concat == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction, "operator.concat of an object that is not a sequence");
}

Outcome operator_concat(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "concat", arguments, 2, 2);
    expect_sequence(tracer, arguments.positional[0]);
    return operations::binary(tracer, BinaryOperator::Add, arguments.positional[0], arguments.positional[1]);
}

Outcome operator_iconcat(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "iconcat", arguments, 2, 2);
    expect_sequence(tracer, arguments.positional[0]);
    return operations::in_place(tracer, BinaryOperator::Add, arguments.positional[0], arguments.positional[1]);
}

Task count_of(Tracer& tracer, Value* iterable, Value* wanted, bool first) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    std::int64_t count = 0;
    for (std::int64_t position = 0;; ++position) {
        Value* item = co_await operations::next(tracer, iterator);
        if (item == tracer.exhausted()) break;
        Value* equal = co_await same_or_equal(tracer, item, wanted);
        if (!is_true(equal)) continue;
        if (first) co_return tracer.integer(position);
        ++count;
    }
    if (first) tracer.raise(PyExc_ValueError, "sequence.index(x): x not in sequence");
    co_return tracer.integer(count);
}

Outcome operator_count_of(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "countOf", arguments, 2, 2);
    return tracer.start(count_of(tracer, arguments.positional[0], arguments.positional[1], false));
}

Outcome operator_index_of(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "operator", "indexOf", arguments, 2, 2);
    return tracer.start(count_of(tracer, arguments.positional[0], arguments.positional[1], true));
}

/// `operator.call(f, *args, **kwargs)`.
Outcome operator_call(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.empty()) tracer.raise(PyExc_TypeError, "call expected at least 1 argument, got 0");
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    return operations::call(tracer, arguments.positional[0], rest);
}

Task reduce_items(Tracer& tracer, Value* function, Value* iterable, Value* total) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    while (true) {
        Value* item = co_await operations::next(tracer, iterator);
        if (item == tracer.exhausted()) break;
        if (total == nullptr)
            total = item;
        else
            total = co_await operations::call(tracer, function, Arguments::of(total, item));
    }
    if (total == nullptr) tracer.raise(PyExc_TypeError, "reduce() of empty iterable with no initial value");
    co_return total;
}

Outcome functools_reduce(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "functools", "reduce", arguments, 2, 3);
    Value* iterable = arguments.positional[1];
    tracer.realize(iterable);
    if (iterable->kind == Kind::Constant && !is_iterable(iterable))
        tracer.raise(PyExc_TypeError, "reduce() arg 2 must support iteration");
    Value* initial = arguments.positional.size() == 3 ? arguments.positional[2] : nullptr;
    return tracer.start(reduce_items(tracer, arguments.positional[0], iterable, initial));
}

}  // namespace

void register_operators(Handlers& handlers) {
    add_binary<BinaryOperator::Add>(handlers);
    add_binary<BinaryOperator::And>(handlers);
    add_binary<BinaryOperator::FloorDivide>(handlers);
    add_binary<BinaryOperator::LeftShift>(handlers);
    add_binary<BinaryOperator::MatrixMultiply>(handlers);
    add_binary<BinaryOperator::Multiply>(handlers);
    add_binary<BinaryOperator::Remainder>(handlers);
    add_binary<BinaryOperator::Or>(handlers);
    add_binary<BinaryOperator::Power>(handlers);
    add_binary<BinaryOperator::RightShift>(handlers);
    add_binary<BinaryOperator::Subtract>(handlers);
    add_binary<BinaryOperator::TrueDivide>(handlers);
    add_binary<BinaryOperator::Xor>(handlers);
    handlers.add(operator_function(UnaryOperator::Negative), apply_unary<UnaryOperator::Negative>);
    handlers.add(operator_function(UnaryOperator::Positive), apply_unary<UnaryOperator::Positive>);
    handlers.add(operator_function(UnaryOperator::Invert), apply_unary<UnaryOperator::Invert>);
    handlers.add("_operator", "inv", apply_unary<UnaryOperator::Invert>);
    handlers.add(operator_function(Comparison::Less), apply_comparison<Comparison::Less>);
    handlers.add(operator_function(Comparison::LessEqual), apply_comparison<Comparison::LessEqual>);
    handlers.add(operator_function(Comparison::Equal), apply_comparison<Comparison::Equal>);
    handlers.add(operator_function(Comparison::NotEqual), apply_comparison<Comparison::NotEqual>);
    handlers.add(operator_function(Comparison::Greater), apply_comparison<Comparison::Greater>);
    handlers.add(operator_function(Comparison::GreaterEqual), apply_comparison<Comparison::GreaterEqual>);
    handlers.add("_operator", "truth", operator_truth);
    handlers.add("_operator", "not_", operator_not);
    handlers.add("_operator", "is_", operator_is);
    handlers.add("_operator", "is_not", operator_is_not);
    handlers.add("_operator", "getitem", operator_getitem);
    handlers.add("_operator", "setitem", operator_setitem);
    handlers.add("_operator", "delitem", operator_delitem);
    handlers.add("_operator", "contains", operator_contains);
    handlers.add("_operator", "index", operator_index);
    handlers.add("_operator", "length_hint", operator_length_hint);
    handlers.add("_operator", "concat", operator_concat);
    handlers.add("_operator", "iconcat", operator_iconcat);
    handlers.add("_operator", "countOf", operator_count_of);
    handlers.add("_operator", "indexOf", operator_index_of);
    handlers.add("_operator", "call", operator_call);
    handlers.add("_functools", "reduce", functools_reduce);
}

}  // namespace stator
