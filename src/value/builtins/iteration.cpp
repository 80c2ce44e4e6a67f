/// `iter`, `next`, `len`, `range`, `enumerate`, `zip`, `map`, `filter`, `reversed`, `any`, `all`, `sum`, and methods of
/// iterators.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "value/builtins/registry.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/dict.h"
#include "value/kinds/exception.h"
#include "value/kinds/lazy_iterators.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/protocol/attributes.h"
#include "value/protocol/identity.h"
#include "value/protocol/index.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"

namespace stator {

namespace {

Outcome builtin_len(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "len", arguments, 1, 1);
    return operations::length(tracer, arguments.positional[0]);
}

Task range_of_indices(Tracer& tracer, Arguments arguments) {
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
        Value* part = arguments.positional[i];
        if (part->kind == Kind::Constant) continue;
        if (auto* scalar = cast<ScalarValue>(part); scalar != nullptr && PyType_IsSubtype(part->type(), &PyLong_Type)) {
            arguments.positional[i] = scalar->plain(tracer);  // already a number: its `__index__` is not called
            continue;
        }
        if (!has_index_method(part)) raise_type_error(tracer, "", part, " object cannot be interpreted as an integer");
        arguments.positional[i] = co_await operations::call_method(tracer, part, "__index__", Arguments::of());
    }
    Value* folded = fold(tracer, reinterpret_cast<PyObject*>(&PyRange_Type), arguments);
    if (folded == nullptr) tracer.break_graph(BreakKind::DataDependent, "a bound of range() is not a constant");
    co_return folded;
}

Outcome make_range(Tracer& tracer, const Arguments& arguments) {
    if (Value* folded = fold(tracer, reinterpret_cast<PyObject*>(&PyRange_Type), arguments)) return folded;
    return tracer.start(range_of_indices(tracer, arguments));
}

// --- iter and next
// -----------------------------------------------------------------------------------------------------

bool may_be_callable(Tracer& tracer, Value* value) {
    tracer.realize(value);
    return has_special_method(tracer, value->type(), "__call__");
}

Outcome builtin_iter(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "iter", arguments, 1, 2);
    if (arguments.positional.size() == 1) return operations::iterate(tracer, arguments.positional[0]);
    if (!may_be_callable(tracer, arguments.positional[0])) {
        // The message depends on the Python version.
        static PyObject* const iter = imported("builtins", "iter");
        refuse_arguments(tracer, iter, "iter", arguments);
    }
    return tracer.make<CallIterator>(arguments.positional[0], arguments.positional[1]);
}

[[noreturn]] void raise_stop(Tracer& tracer) {
    throw Raised{make_exception(tracer, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration), {})};
}

Task next_or(Tracer& tracer, Value* iterator, Value* otherwise) {
    Value* item = co_await operations::next(tracer, iterator);
    if (item != tracer.exhausted()) co_return item;
    if (otherwise == nullptr) raise_stop(tracer);
    co_return otherwise;
}

Outcome builtin_next(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "next", arguments, 1, 2);
    Value* otherwise = arguments.positional.size() == 2 ? arguments.positional[1] : nullptr;
    Value* iterator = arguments.positional[0];
    tracer.realize(iterator);
    if (!has_special_method(tracer, iterator->type(), "__next__"))
        raise_type_error(tracer, "", iterator, " object is not an iterator");
    // A generator's StopIteration carries what it returned, and only raising it for real tells.
    if (otherwise == nullptr && iterator->kind != Kind::Iterator)
        return operations::call_method(tracer, iterator, "__next__", Arguments::of());
    return tracer.start(next_or(tracer, iterator, otherwise));
}

// --- lazy iterators
// ----------------------------------------------------------------------------------------------------

Task start_enumerate(Tracer& tracer, Value* iterable, Value* count) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    co_return tracer.make<EnumerateIterator>(iterator, count);
}

Outcome make_enumerate(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "enumerate", arguments, {"iterable", "start"}, 1);
    Value* count = bound[1] != nullptr ? bound[1] : tracer.integer(0);
    tracer.realize(count);
    count = unwrapped(tracer, count);
    if (count->kind != Kind::Constant || !PyIndex_Check(count->object())) {
        if (has_index_method(count)) expect_index(tracer, count);
        raise_type_error(tracer, "", count, " object cannot be interpreted as an integer");
    }
    return tracer.start(start_enumerate(tracer, bound[0], count));
}

Task start_zip(Tracer& tracer, std::vector<Value*> iterables, Value* strict) {
    Value* truth = co_await operations::truth(tracer, strict);
    std::vector<Value*> iterators;
    for (std::size_t i = 0; i < iterables.size(); ++i)
        iterators.push_back(co_await operations::iterate(tracer, iterables[i]));
    co_return tracer.make<ZipIterator>(std::move(iterators), is_true(truth));
}

Outcome make_zip(Tracer& tracer, const Arguments& arguments) {
    Value* strict = tracer.boolean(false);
    for (const Keyword& keyword : arguments.keywords) {
        if (PyUnicode_CompareWithASCIIString(keyword.name, "strict") != 0)
            refuse_arguments(tracer, reinterpret_cast<PyObject*>(&PyZip_Type), "zip", arguments);
        strict = keyword.value;
    }
    return tracer.start(start_zip(tracer, arguments.positional, strict));
}

Task start_map(Tracer& tracer, Value* function, std::vector<Value*> iterables) {
    std::vector<Value*> iterators;
    for (std::size_t i = 0; i < iterables.size(); ++i)
        iterators.push_back(co_await operations::iterate(tracer, iterables[i]));
    co_return tracer.make<MapIterator>(function, std::move(iterators));
}

Outcome make_map(Tracer& tracer, const Arguments& arguments) {
    if (!arguments.keywords.empty()) tracer.raise(PyExc_TypeError, "map() takes no keyword arguments");
    if (arguments.positional.size() < 2) tracer.raise(PyExc_TypeError, "map() must have at least two arguments.");
    return tracer.start(
        start_map(tracer, arguments.positional[0], {arguments.positional.begin() + 1, arguments.positional.end()}));
}

Task start_filter(Tracer& tracer, PyTypeObject* type, Value* function, Value* iterable, bool wanted) {
    tracer.realize(function);
    Value* iterator = co_await operations::iterate(tracer, iterable);
    co_return tracer.make<FilterIterator>(type, function, iterator, wanted);
}

Outcome make_filter(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "filter", arguments, 2, 2);
    return tracer.start(start_filter(tracer, &PyFilter_Type, arguments.positional[0], arguments.positional[1], true));
}

Outcome make_filterfalse(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "itertools", "filterfalse", arguments, 2, 2);
    static PyTypeObject* const type = imported_class("itertools", "filterfalse");
    return tracer.start(start_filter(tracer, type, arguments.positional[0], arguments.positional[1], false));
}

// --- reversed
// ----------------------------------------------------------------------------------------------------------

Task reverse_by_protocol(Tracer& tracer, Value* sequence) {
    Value* length = co_await operations::length(tracer, sequence);
    co_return tracer.make<IndexIterator>(sequence, std::int64_t{expect_index(tracer, length)} - 1);
}

Outcome reverse_sequence(Tracer& tracer, const Arguments& arguments) {
    auto* self = arguments.positional.empty() ? nullptr : as_sequence(arguments.positional[0]);
    if (self == nullptr || arguments.count() != 1)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "__reversed__ is called with arguments that Stator has no model of");
    std::size_t length = static_cast<std::size_t>(self->length(tracer));
    PyTypeObject* type = self->kind == Kind::List ? &PyListRevIter_Type : &PyReversed_Type;
    return tracer.make<ReverseIterator>(type, self, length);
}

Outcome builtin_reversed(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "reversed", arguments, 1, 1);
    Value* value = arguments.positional[0];
    tracer.realize(value);
    if (Value* method = operations::user_method(tracer, value, "__reversed__"))
        return operations::call(tracer, method, Arguments::of(value));
    bool plain = operations::user_method(tracer, value, "__getitem__") == nullptr &&
                 operations::user_method(tracer, value, "__len__") == nullptr;
    if (as_sequence(value) != nullptr && (plain || value->kind == Kind::List))
        return reverse_sequence(tracer, arguments);
    if (auto* dict = cast<DictValue>(value))
        return tracer.make<DictIterator>(tracer, dict, DictViewValue::What::Keys, true);
    if (auto* view = cast<DictViewValue>(value)) {
        auto what = view->what == DictViewValue::What::Proxy ? DictViewValue::What::Keys : view->what;
        return tracer.make<DictIterator>(tracer, view->dict, what, true);
    }
    if (value->kind == Kind::Constant) {
        Ref<> real = Ref<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyReversed_Type), value->object()));
        if (!real) tracer.raise_from_python();
        std::vector<Value*> items;
        PyTypeObject* type = Py_TYPE(real.get());
        while (Ref<> item = Ref<>::steal(PyIter_Next(real.get()))) items.push_back(tracer.constant(item));
        auto* iterator = tracer.make<ItemsIterator>(type, std::move(items));
        iterator->origin = value;
        iterator->is_reversed = true;
        return iterator;
    }
    if (value->kind == Kind::Deque) return operations::call_method(tracer, value, "__reversed__", Arguments::of());
    if (value->kind == Kind::Object && has_special_method(tracer, value->type(), "__getitem__") &&
        has_special_method(tracer, value->type(), "__len__"))
        return tracer.start(reverse_by_protocol(tracer, value));
    if (value->kind == Kind::Tensor) return operations::call_method(tracer, value, "__reversed__", Arguments::of());
    raise_type_error(tracer, "", value, " object is not reversible");
}

// --- folding an iterable
// -----------------------------------------------------------------------------------------------

Task find_truth(Tracer& tracer, Value* iterable, bool wanted) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    while (true) {
        Value* item = co_await operations::next(tracer, iterator);
        if (item == tracer.exhausted()) co_return tracer.boolean(!wanted);
        Value* truth = co_await operations::truth(tracer, item);
        if (is_true(truth) == wanted) co_return tracer.boolean(wanted);
    }
}

Outcome builtin_any(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "any", arguments, 1, 1);
    return tracer.start(find_truth(tracer, arguments.positional[0], true));
}

Outcome builtin_all(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "all", arguments, 1, 1);
    return tracer.start(find_truth(tracer, arguments.positional[0], false));
}

Task add_up(Tracer& tracer, Value* iterable, Value* total) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    while (true) {
        Value* item = co_await operations::next(tracer, iterator);
        if (item == tracer.exhausted()) co_return total;
        if (!symbolic::is(item) || item->type() != &PyLong_Type) tracer.realize(item);
        total = co_await operations::binary(tracer, BinaryOperator::Add, total, item);
    }
}

/// From 3.12 on, `sum` of floats compensates for rounding: only the real function returns the same bits.
Value* sum_of_constants(Tracer& tracer, Value* iterable, Value* start) {
    SequenceValue* sequence = as_sequence(iterable);
    if (sequence == nullptr) return nullptr;
    bool has_symbol = symbolic::is(start), are_ints = start->type() == &PyLong_Type;
    for (Value* item : sequence->all(tracer)) {
        if (item->kind != Kind::Constant) return nullptr;
        has_symbol = has_symbol || symbolic::is(item);
        are_ints = are_ints && item->type() == &PyLong_Type;
    }
    if (has_symbol && are_ints) return nullptr;
    tracer.realize(start);
    if (start->kind != Kind::Constant) return nullptr;
    Arguments known;
    known.positional = {iterable, start};
    return fold(tracer, builtin_function("sum"), known);
}

Outcome builtin_sum(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "sum", arguments, {"iterable", "start"}, 1, 1);
    Value* start = bound[1] != nullptr ? bound[1] : tracer.integer(0);
    if ((start->kind == Kind::Constant && !symbolic::is(start)) || start->kind == Kind::Object) tracer.realize(start);
    if (start->kind == Kind::Object && PyType_IsSubtype(start->type(), &PyByteArray_Type))
        tracer.raise(PyExc_TypeError, "sum() can't sum bytearray [use b''.join(seq) instead]");
    if (start->object() != nullptr && start->kind == Kind::Constant) {
        if (PyUnicode_Check(start->object()))
            tracer.raise(PyExc_TypeError, "sum() can't sum strings [use ''.join(seq) instead]");
        if (PyBytes_Check(start->object()))
            tracer.raise(PyExc_TypeError, "sum() can't sum bytes [use b''.join(seq) instead]");
    }
    tracer.realize(bound[0]);
    if (operations::user_method(tracer, bound[0], "__iter__") == nullptr)
        if (Value* known = sum_of_constants(tracer, bound[0], start)) return known;
    return tracer.start(add_up(tracer, bound[0], start));
}

PyTypeObject* iterator_of_empty(const char* expression) {
    Ref<> globals = checked(PyDict_New());
    PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
    Ref<> made = checked(PyRun_String(expression, Py_eval_input, globals.get(), globals.get()));
    return Py_TYPE(made.get());
}

}  // namespace

Outcome iterator_next(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() != 1)
        tracer.raise(PyExc_TypeError, "expected 0 arguments, got " + std::to_string(arguments.count() - 1));
    return tracer.start(next_or(tracer, arguments.positional[0], nullptr));
}

Outcome iterator_iter(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() != 1)
        tracer.raise(PyExc_TypeError, "expected 0 arguments, got " + std::to_string(arguments.count() - 1));
    return arguments.positional[0];
}

void register_iteration(Handlers& handlers) {
    handlers.add("builtins", "len", builtin_len);
    handlers.add("builtins", "range", make_range);
    handlers.add("builtins", "iter", builtin_iter);
    handlers.add("builtins", "next", builtin_next);
    handlers.add("builtins", "enumerate", make_enumerate);
    handlers.add("builtins", "zip", make_zip);
    handlers.add("builtins", "map", make_map);
    handlers.add("builtins", "filter", make_filter);
    handlers.add("itertools", "filterfalse", make_filterfalse);
    handlers.add("builtins", "reversed", builtin_reversed);
    handlers.add("builtins", "any", builtin_any);
    handlers.add("builtins", "all", builtin_all);
    handlers.add("builtins", "sum", builtin_sum);
    handlers.add_method(&PyList_Type, "__reversed__", reverse_sequence);
    handlers.add_pure_class(&PyRange_Type);
    for (PyTypeObject* type : {&PyListIter_Type,
                               &PyListRevIter_Type,
                               &PyTupleIter_Type,
                               &PyDictIterKey_Type,
                               &PyDictIterValue_Type,
                               &PyDictIterItem_Type,
                               &PyDictRevIterKey_Type,
                               &PyDictRevIterValue_Type,
                               &PyDictRevIterItem_Type,
                               &PyODictIter_Type,
                               &PySetIter_Type,
                               &PyEnum_Type,
                               &PyZip_Type,
                               &PyMap_Type,
                               &PyFilter_Type,
                               &PyReversed_Type,
                               &PyCallIter_Type,
                               &PyRangeIter_Type,
                               iterator_of_empty("iter('')"),
                               iterator_of_empty("iter('\\u1234')"),
                               iterator_of_empty("iter(b'')"),
                               iterator_of_empty("iter(range(2**70))")}) {
        handlers.add_method(type, "__next__", iterator_next);
        handlers.add_method(type, "__iter__", iterator_iter);
    }
}

}  // namespace stator
