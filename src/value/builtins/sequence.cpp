/// `list`, `tuple`, `slice` and `torch.Size`: constructors and methods.
#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/builtins/registry.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/container_effects.h"
#include "value/kinds/sequence.h"
#include "value/kinds/slice.h"
#include "value/protocol/calling.h"
#include "value/protocol/identity.h"
#include "value/protocol/index.h"
#include "value/protocol/raising.h"
#include "value/protocol/text.h"

namespace stator {

namespace {

ListValue* list_receiver(Tracer& tracer, const Arguments& arguments, const char* method, std::size_t least,
                         std::size_t most) {
    return receiver<ListValue>(tracer, arguments, &PyList_Type, method, least, most);
}

/// The receiver of `append` or `extend`, which need not be realized.
ListValue* growing_receiver(Tracer& tracer, const Arguments& arguments, const char* method) {
    auto* self = cast<ListValue>(arguments.positional.empty() ? nullptr : arguments.positional[0]);
    bool is_lean = self != nullptr && self->class_ == &PyList_Type && arguments.positional.size() == 2 &&
                   arguments.keywords.empty();
    if (!is_lean || self->realized) return list_receiver(tracer, arguments, method, 1, 1);
    tracer.guard({GuardKind::Type, self->source, reinterpret_cast<PyObject*>(&PyList_Type)});
    return self;
}

SequenceValue* sequence_receiver(Tracer& tracer, const Arguments& arguments, const char* method, std::size_t least,
                                 std::size_t most) {
    if (!arguments.positional.empty() && cast<ListValue>(arguments.positional[0]) != nullptr)
        return list_receiver(tracer, arguments, method, least, most);
    return receiver<TupleValue>(tracer, arguments, &PyTuple_Type, method, least, most);
}

// --- constructors
// ------------------------------------------------------------------------------------------------------

Task collect_as_tuple(Tracer& tracer, PyTypeObject* type, Value* iterable) {
    Value* collected = co_await operations::collect(tracer, iterable);
    co_return make_tuple(tracer, as_sequence(collected)->all(tracer), type);
}

Outcome tuple_from(Tracer& tracer, PyTypeObject* type, Value* iterable) {
    if (iterable == nullptr) return make_tuple(tracer, {}, type);
    tracer.realize(iterable);
    if (auto* tuple = cast<TupleValue>(iterable); tuple != nullptr && type == tuple->class_ && type == &PyTuple_Type)
        return tuple;
    return tracer.start(collect_as_tuple(tracer, type, iterable));
}

Outcome make_tuple_of(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "tuple", arguments, 0, 1);
    return tuple_from(tracer, &PyTuple_Type, arguments.positional.empty() ? nullptr : arguments.positional[0]);
}

/// `tuple.__new__(cls, iterable)`, which the `__new__` of a named tuple calls too.
Outcome new_tuple(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr || !PyType_IsSubtype(type->held, &PyTuple_Type) || arguments.positional.size() > 2 ||
        !arguments.keywords.empty())
        tracer.break_graph(BreakKind::UnknownFunction,
                           "tuple.__new__ is called with arguments that Stator has no model of");
    return tuple_from(tracer, type->held, arguments.positional.size() == 2 ? arguments.positional[1] : nullptr);
}

Outcome make_size(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "torch", "Size", arguments, 0, 1);
    Value* iterable = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (iterable != nullptr) {
        tracer.realize(iterable);
        if (auto* tuple = cast<TupleValue>(iterable); tuple != nullptr && tuple->class_ == torch_size_class())
            return tuple;
    }
    return tuple_from(tracer, torch_size_class(), iterable);
}

Outcome size_numel(Tracer& tracer, const Arguments& arguments) {
    auto* self = receiver<TupleValue>(tracer, arguments, torch_size_class(), "numel", 0, 0);
    Value* product = tracer.integer(1);
    for (Value* part : self->all(tracer)) {
        Value* next = symbolic::binary(tracer, BinaryOperator::Multiply, product, part);
        product = next != nullptr ? next : tracer.integer(expect_index(tracer, product) * expect_index(tracer, part));
    }
    return product;
}

Outcome make_list_of(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "list", arguments, 0, 1);
    if (arguments.positional.empty()) return make_list(tracer, {});
    return operations::collect(tracer, arguments.positional[0]);
}

void empty(Tracer& tracer, ListValue* list) {
    // The items have to be read first: the tracer has to know whether something else still references them.
    list->all(tracer);
    list->assign(tracer, {}, method_effect(&PyList_Type, "clear", {list}));
}

Task refill(Tracer& tracer, ListValue* list, Value* iterable) {
    empty(tracer, list);
    co_return co_await extend(tracer, list, iterable);
}

Outcome list_init(Tracer& tracer, const Arguments& arguments) {
    auto* self = list_receiver(tracer, arguments, "__init__", 0, 1);
    if (arguments.positional.size() == 1) {
        empty(tracer, self);
        return tracer.none();
    }
    return tracer.start(refill(tracer, self, arguments.positional[1]));
}

Outcome make_slice(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "slice", arguments, 1, 3);
    const auto& parts = arguments.positional;
    if (parts.size() == 1) return tracer.make<SliceValue>(tracer.none(), parts[0], tracer.none());
    return tracer.make<SliceValue>(parts[0], parts[1], parts.size() == 3 ? parts[2] : tracer.none());
}

Outcome slice_indices(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 2)
        tracer.raise(PyExc_TypeError, "slice.indices() takes exactly one argument (" +
                                          std::to_string(arguments.positional.size() - 1) + " given)");
    Value* self = arguments.positional[0];
    tracer.realize(self);
    Ref<> known = self->as_constant(tracer);
    Ref<> length = arguments.positional[1]->as_constant(tracer);
    if (!known || !length)
        tracer.break_graph(BreakKind::UnknownObject, "slice.indices() of a slice that is not a constant");
    Ref<> answer = Ref<>::steal(PyObject_CallMethodOneArg(known.get(), interned("indices"), length.get()));
    if (!answer) tracer.raise_from_python();
    return tracer.fresh(std::move(answer));
}

// --- changing a list
// ---------------------------------------------------------------------------------------------------

Outcome list_append(Tracer& tracer, const Arguments& arguments) {
    growing_receiver(tracer, arguments, "append")->append(tracer, arguments.positional[1]);
    return tracer.none();
}

Outcome list_extend(Tracer& tracer, const Arguments& arguments) {
    auto* self = growing_receiver(tracer, arguments, "extend");
    return extend(tracer, self, arguments.positional[1]);
}

Outcome list_insert(Tracer& tracer, const Arguments& arguments) {
    auto* self = list_receiver(tracer, arguments, "insert", 2, 2);
    Py_ssize_t size = self->length(tracer);
    Py_ssize_t at = expect_index(tracer, arguments.positional[1]);
    at = at < 0 ? std::max<Py_ssize_t>(0, at + size) : std::min(at, size);
    self->insert(tracer, static_cast<std::size_t>(at), arguments.positional[2]);
    return tracer.none();
}

Outcome list_pop(Tracer& tracer, const Arguments& arguments) {
    auto* self = list_receiver(tracer, arguments, "pop", 0, 1);
    Py_ssize_t size = self->length(tracer);
    Py_ssize_t at = arguments.positional.size() == 2 ? expect_index(tracer, arguments.positional[1]) : -1;
    if (size == 0) tracer.raise(PyExc_IndexError, "pop from empty list");
    if (at < 0) at += size;
    if (at < 0 || at >= size) tracer.raise(PyExc_IndexError, "pop index out of range");
    return self->remove(tracer, static_cast<std::size_t>(at));
}

Task remove_equal(Tracer& tracer, ListValue* list, Value* wanted) {
    for (std::size_t i = 0; i < list->items.size(); ++i) {
        Value* answer = co_await same_or_equal(tracer, list->item(tracer, i), wanted);
        if (!is_true(answer)) continue;
        if (i < list->items.size()) list->remove(tracer, i);
        co_return tracer.none();
    }
    tracer.raise(PyExc_ValueError, "list.remove(x): x not in list");
}

Outcome list_remove(Tracer& tracer, const Arguments& arguments) {
    auto* self = list_receiver(tracer, arguments, "remove", 1, 1);
    return tracer.start(remove_equal(tracer, self, arguments.positional[1]));
}

Outcome list_clear(Tracer& tracer, const Arguments& arguments) {
    empty(tracer, list_receiver(tracer, arguments, "clear", 0, 0));
    return tracer.none();
}

Outcome list_reverse(Tracer& tracer, const Arguments& arguments) {
    auto* self = list_receiver(tracer, arguments, "reverse", 0, 0);
    std::vector<Value*> items = self->all(tracer);
    std::ranges::reverse(items);
    self->assign(tracer, std::move(items), method_effect(&PyList_Type, "reverse", {self}));
    return tracer.none();
}

Outcome list_copy(Tracer& tracer, const Arguments& arguments) {
    return make_list(tracer, list_receiver(tracer, arguments, "copy", 0, 0)->all(tracer));
}

// --- looking into a sequence
// -------------------------------------------------------------------------------------------

Task position_of(Tracer& tracer, SequenceValue* sequence, Value* wanted, Py_ssize_t start, Py_ssize_t stop) {
    for (Py_ssize_t i = start; i < stop && static_cast<std::size_t>(i) < sequence->items.size(); ++i) {
        Value* answer = co_await same_or_equal(tracer, sequence->item(tracer, static_cast<std::size_t>(i)), wanted);
        if (is_true(answer)) co_return tracer.integer(i);
    }
    if (sequence->kind == Kind::Tuple) tracer.raise(PyExc_ValueError, "tuple.index(x): x not in tuple");
    // The message depends on the Python version, so the real method raises it.
    if (Ref<> known = wanted->as_constant(tracer)) {
        Ref<> empty = checked(PyList_New(0));
        Ref<> failed = Ref<>::steal(PyObject_CallMethodOneArg(empty.get(), interned("index"), known.get()));
        tracer.raise_from_python();
    }
    Value* shown = co_await repr_of(tracer, wanted);
    tracer.raise(PyExc_ValueError, std::string(utf8(shown->object())) + " is not in list");
}

Outcome sequence_index(Tracer& tracer, const Arguments& arguments) {
    auto* self = sequence_receiver(tracer, arguments, "index", 1, 3);
    Py_ssize_t size = self->length(tracer), bounds[2] = {0, PY_SSIZE_T_MAX};
    for (std::size_t i = 0; i + 2 < arguments.positional.size(); ++i) {
        auto at = as_clipped_index(tracer, arguments.positional[i + 2]);
        if (!at) tracer.raise(PyExc_TypeError, "slice indices must be integers or have an __index__ method");
        bounds[i] = *at < 0 ? std::max<Py_ssize_t>(0, *at + size) : *at;
    }
    return tracer.start(position_of(tracer, self, arguments.positional[1], bounds[0], bounds[1]));
}

Task count_equal(Tracer& tracer, SequenceValue* sequence, Value* wanted) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < sequence->items.size(); ++i) {
        Value* answer = co_await same_or_equal(tracer, sequence->item(tracer, i), wanted);
        if (is_true(answer)) ++count;
    }
    co_return tracer.integer(count);
}

Outcome sequence_count(Tracer& tracer, const Arguments& arguments) {
    auto* self = sequence_receiver(tracer, arguments, "count", 1, 1);
    return tracer.start(count_equal(tracer, self, arguments.positional[1]));
}

Outcome tuple_getnewargs(Tracer& tracer, const Arguments& arguments) {
    auto* self = receiver<TupleValue>(tracer, arguments, &PyTuple_Type, "__getnewargs__", 0, 0);
    if (self->class_ == &PyTuple_Type) return make_tuple(tracer, {self});
    return make_tuple(tracer, {make_tuple(tracer, self->all(tracer))});
}

}  // namespace

void register_sequences(Handlers& handlers) {
    handlers.add(reinterpret_cast<PyObject*>(&PyTuple_Type), make_tuple_of);
    handlers.add(reinterpret_cast<PyObject*>(&PyList_Type), make_list_of);
    handlers.add(reinterpret_cast<PyObject*>(&PySlice_Type), make_slice);
    handlers.add(reinterpret_cast<PyObject*>(torch_size_class()), make_size);
    handlers.add_method(&PyTuple_Type, "__new__", new_tuple);
    handlers.add_method(torch_size_class(), "__new__", new_tuple);
    handlers.add_method(torch_size_class(), "numel", size_numel);
    handlers.add_method(&PySlice_Type, "indices", slice_indices);
    handlers.add_method(&PyList_Type, "__init__", list_init);
    handlers.add_method(&PyList_Type, "append", list_append);
    handlers.add_method(&PyList_Type, "extend", list_extend);
    handlers.add_method(&PyList_Type, "insert", list_insert);
    handlers.add_method(&PyList_Type, "pop", list_pop);
    handlers.add_method(&PyList_Type, "remove", list_remove);
    handlers.add_method(&PyList_Type, "clear", list_clear);
    handlers.add_method(&PyList_Type, "reverse", list_reverse);
    handlers.add_method(&PyList_Type, "copy", list_copy);
    for (PyTypeObject* type : {&PyList_Type, &PyTuple_Type}) {
        handlers.add_method(type, "index", sequence_index);
        handlers.add_method(type, "count", sequence_count);
    }
    handlers.add_method(&PyTuple_Type, "__getnewargs__", tuple_getnewargs);
}

}  // namespace stator
