#include "value/kinds/iterator.h"

#include <algorithm>

#include "base/python_error.h"
#include "base/text.h"
#include "cpython/iterators.h"
#include "effect/plan.h"
#include "value/kinds/dict.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/kinds/undoable.h"
#include "value/protocol/identity.h"
#include "value/protocol/operations.h"

namespace stator {

namespace {

Task next_of_call(Tracer& tracer, CallIterator* iterator) {
    if (iterator->callable == nullptr) co_return tracer.exhausted();
    Value* item = co_await operations::call(tracer, iterator->callable, Arguments::of());
    Value* found = co_await same_or_equal(tracer, iterator->sentinel, item);
    if (!is_true(found)) co_return item;
    tracer.on_undo([iterator, before = iterator->callable] { iterator->callable = before; });
    iterator->callable = nullptr;
    co_return tracer.exhausted();
}

Task next_by_index(Tracer& tracer, IndexIterator* iterator) {
    if (iterator->sequence == nullptr) co_return tracer.exhausted();
    int step = iterator->is_reversed() ? -1 : 1;
    if (iterator->position < 0) {
        set_undoably(tracer, iterator->sequence, nullptr);
        co_return tracer.exhausted();
    }
    try {
        Value* item = co_await operations::get_item(tracer, iterator->sequence, tracer.integer(iterator->position));
        set_undoably(tracer, iterator->position, iterator->position + step);
        co_return item;
    } catch (const Raised& raised) {
        PyTypeObject* type = raised.exception->type();
        if (!PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_IndexError)) &&
            !PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)))
            throw;
    }
    set_undoably(tracer, iterator->sequence, nullptr);
    co_return tracer.exhausted();
}

}  // namespace

int IteratorValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    throw Break{BreakKind::Rebuild, "an iterator of class " + type_name(class_) +
                                        " is still used after the captured region and can't be rebuilt"};
}

std::string IteratorValue::print() const {
    return "<" + type_name(class_) + ">";
}

bool is_immediate(const Value* iterator) {
    return iterator->kind == Kind::Iterator && static_cast<const IteratorValue*>(iterator)->immediate();
}

bool all_immediate(const std::vector<Value*>& iterators) {
    return std::ranges::all_of(iterators, is_immediate);
}

bool SequenceIterator::immediate() const {
    return sequence == nullptr || as_sequence(sequence) != nullptr;
}

Outcome SequenceIterator::next(Tracer& tracer) {
    if (sequence == nullptr) return tracer.exhausted();
    SequenceValue* items = as_sequence(sequence);
    STATOR_CHECK(items != nullptr, "only tuples and lists are iterated by position");
    if (position >= items->items.size()) {
        tracer.on_undo([this, before = sequence] { sequence = before; });
        sequence = nullptr;
        return tracer.exhausted();
    }
    tracer.on_undo([this] { --position; });
    return items->item(tracer, position++);
}

int SequenceIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (sequence == nullptr) {
        int empty = plan.add(class_ == &PyTupleIter_Type ? PlanOp::Tuple : PlanOp::List);
        return rebuild_iterator(plan, this, empty, 0);
    }
    // The list shrank: `__setstate__` would clip the position to its length.
    if (SequenceValue* items = as_sequence(sequence);
        items != nullptr && items->realized && position > items->items.size())
        return IteratorValue::rebuild(plan);
    int over = sequence->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    int to = rebuild_iterator(plan, this, over, 0);
    if (position > 0) rebuild_position(plan, to, class_, static_cast<std::int64_t>(position));
    return to;
}

Outcome ReverseIterator::next(Tracer& tracer) {
    if (sequence == nullptr) return tracer.exhausted();
    SequenceValue* items = as_sequence(sequence);
    if (left == 0 || left > items->items.size()) {
        tracer.on_undo([this, before = sequence] { sequence = before; });
        sequence = nullptr;
        return tracer.exhausted();
    }
    tracer.on_undo([this] { ++left; });
    return items->item(tracer, --left);
}

int ReverseIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    PlanOp empty = class_ == &PyReversed_Type ? PlanOp::Tuple : PlanOp::List;
    int over = sequence == nullptr ? plan.add(empty) : sequence->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Call, {over}, builtin_function("reversed"));
    if (sequence != nullptr) rebuild_position(plan, to, class_, static_cast<std::int64_t>(left) - 1);
    return to;
}

Outcome ItemsIterator::next(Tracer& tracer) {
    if (position >= items.size()) return tracer.exhausted();
    tracer.on_undo([this] { --position; });
    return items[position++];
}

int ItemsIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (origin != nullptr) {
        int over = origin->rebuild(plan);
        if (int known = plan.known(this); known >= 0) return known;
        if (!is_reversed) return rebuild_iterator(plan, this, over, position);
        int to = plan.reserve(this);
        plan.add_to(to, PlanOp::Call, {over}, builtin_function("reversed"));
        rebuild_steps(plan, to, position);
        return to;
    }
    if (made_of.count() > 0) {
        int to = rebuild_by_call(plan, this, reinterpret_cast<PyObject*>(class_), made_of);
        rebuild_steps(plan, to, position);
        return to;
    }
    if (class_ != &PyTupleIter_Type && class_ != &PyListIter_Type && class_ != &PyReversed_Type)
        return IteratorValue::rebuild(plan);
    // The class shows that its items were copied into a sequence of their own.
    std::vector<std::int32_t> parts;
    for (Value* item : items) parts.push_back(item->rebuild(plan));
    if (int known = plan.known(this); known >= 0) return known;
    if (class_ == &PyReversed_Type) std::ranges::reverse(parts);
    int over = plan.add(class_ == &PyListIter_Type ? PlanOp::List : PlanOp::Tuple, std::move(parts));
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Call, {over}, builtin_function(class_ == &PyReversed_Type ? "reversed" : "iter"));
    rebuild_steps(plan, to, position);
    return to;
}

Outcome ConstantIterator::next(Tracer& tracer) {
    if (position >= length_) return tracer.exhausted();
    Ref<> item = Ref<>::steal(PySequence_GetItem(constant, position));
    if (!item) tracer.raise_from_python();
    tracer.on_undo([this] { --position; });
    ++position;
    return tracer.constant(item);
}

int ConstantIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    int to = rebuild_iterator(plan, this, plan.constant(constant), 0);
    if (position > 0) rebuild_position(plan, to, class_, position);
    return to;
}

Outcome CallIterator::next(Tracer& tracer) {
    return tracer.start(next_of_call(tracer, this));
}

int CallIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (callable != nullptr) return rebuild_by_call(plan, this, builtin_function("iter"), {callable, sentinel});
    // Any exhausted `iter(callable, sentinel)` will do: `int` returns the sentinel 0 at once.
    int to = plan.reserve(this);
    int zero = plan.constant(checked(PyLong_FromLong(0)));
    plan.add_to(to, PlanOp::Call, {plan.constant(reinterpret_cast<PyObject*>(&PyLong_Type)), zero},
                builtin_function("iter"));
    plan.add(PlanOp::Call, {to, zero}, builtin_function("next"));
    return to;
}

Outcome IndexIterator::next(Tracer& tracer) {
    return tracer.start(next_by_index(tracer, this));
}

namespace {

/// `iter` of an object with `__getitem__`, without checking for that method.
PyObject* index_iterator_function() {
    static PyMethodDef definition = {
        "iterate_by_index", [](PyObject*, PyObject* sequence) { return PySeqIter_New(sequence); }, METH_O, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    return function;
}

/// `reversed` from a given index on, without calling `__len__`.
PyObject* reversed_by_index_function() {
    static PyMethodDef definition = {"reversed_from",
                                     [](PyObject*, PyObject* arguments) {
                                         return cpython::reversed_from(
                                             PyTuple_GET_ITEM(arguments, 0),
                                             PyLong_AsSsize_t(PyTuple_GET_ITEM(arguments, 1)));
                                     },
                                     METH_VARARGS, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    return function;
}

}  // namespace

Value* sequence_by_index(Value* iterator) {
    auto* by_index = dynamic_cast<IndexIterator*>(iterator);
    return by_index == nullptr ? nullptr : by_index->sequence;
}

int IndexIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    int over = sequence == nullptr ? plan.add(PlanOp::Tuple) : sequence->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    if (is_reversed()) {
        Ref<> last = checked(PyLong_FromLongLong(sequence == nullptr ? -1 : position));
        plan.add_to(to, PlanOp::Call, {over, plan.constant(last.get())}, reversed_by_index_function());
        return to;
    }
    plan.add_to(to, PlanOp::Call, {over}, index_iterator_function());
    if (sequence == nullptr) return to;
    if (position > 0) rebuild_position(plan, to, class_, position);
    return to;
}

Value* iterate_constant(Tracer& tracer, Borrowed<> constant) {
    Ref<> real = Ref<>::steal(PyObject_GetIter(constant));
    if (!real) tracer.raise_from_python();
    PyTypeObject* type = Py_TYPE(real.get());
    tracer.keep(Ref<>::share(reinterpret_cast<PyObject*>(type)));
    if (PySequence_Check(constant) && !PyDict_Check(constant)) {
        Py_ssize_t length = PySequence_Size(constant);
        if (length >= 0) return tracer.make<ConstantIterator>(type, tracer.keep(Ref<>::share(constant)), length);
        PyErr_Clear();
    }
    std::vector<Value*> items;
    while (Ref<> item = Ref<>::steal(PyIter_Next(real.get()))) items.push_back(tracer.constant(item));
    if (PyErr_Occurred()) tracer.raise_from_python();
    auto* iterator = tracer.make<ItemsIterator>(type, std::move(items));
    iterator->origin = tracer.constant(constant);
    return iterator;
}

bool is_iterable(const Value* value) {
    PyTypeObject* type = value->type();
    if (type->tp_iter != nullptr) return true;
    return type->tp_as_sequence != nullptr && type->tp_as_sequence->sq_item != nullptr;
}

std::optional<std::vector<Value*>> items_now(Tracer& tracer, Value* iterable) {
    tracer.realize(iterable);
    if (SequenceValue* sequence = as_sequence(iterable)) {
        if (operations::user_method(tracer, iterable, "__iter__") != nullptr) return std::nullopt;
        return sequence->all(tracer);
    }
    IteratorValue* iterator = nullptr;
    switch (iterable->kind) {
        case Kind::Iterator:
            iterator = static_cast<IteratorValue*>(iterable);
            break;
        case Kind::Dict:
        case Kind::Set:
            if (operations::user_method(tracer, iterable, "__iter__") != nullptr) return std::nullopt;
            [[fallthrough]];
        case Kind::DictView:
            iterator = cast<IteratorValue>(iterable->iterate(tracer).value());
            break;
        case Kind::Constant:
            if (!is_iterable(iterable)) return std::nullopt;
            iterator = cast<IteratorValue>(iterate_constant(tracer, iterable->object()));
            break;
        default:
            return std::nullopt;
    }
    if (iterator == nullptr || !iterator->immediate()) return std::nullopt;
    std::vector<Value*> items;
    while (true) {
        Value* item = iterator->next(tracer).value();
        if (item == tracer.exhausted()) return items;
        items.push_back(item);
    }
}

PyTypeObject* iterator_class_of(Borrowed<> sample) {
    Ref<> iterator = checked(PyObject_GetIter(sample));
    return Py_TYPE(iterator.get());
}

int rebuild_iterator(PlanBuilder& plan, const void* value, int iterable, std::size_t steps) {
    int to = plan.reserve(value);
    plan.add_to(to, PlanOp::Call, {iterable}, builtin_function("iter"));
    rebuild_steps(plan, to, steps);
    return to;
}

void rebuild_steps(PlanBuilder& plan, int iterator, std::size_t steps) {
    if (steps == 0) return;
    // With a default, for an iterator that reaches its end.
    int none = plan.constant(Py_None);
    for (std::size_t i = 0; i < steps; ++i) plan.add(PlanOp::Call, {iterator, none}, builtin_function("next"));
}

void expect_complete(const PlanBuilder& plan, const Value* container, const IteratorValue* iterator) {
    if (plan.is_filling(container))
        throw Break{
            BreakKind::Rebuild,
            "an iterator of class " + type_name(iterator->class_) +
                ", which is reachable from the object that it iterates over, is still used after the captured region"};
}

void rebuild_position(PlanBuilder& plan, int iterator, PyTypeObject* type, std::int64_t position) {
    Ref<> set_state = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__setstate__"));
    Ref<> number = checked(PyLong_FromLongLong(position));
    plan.add_at_end(PlanOp::Call, {iterator, plan.constant(number)}, set_state);
}

}  // namespace stator
