#include "value/kinds/deque.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "value/effect_log.h"
#include "value/kinds/constant.h"
#include "value/kinds/container_effects.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/protocol/identity.h"
#include "value/protocol/index.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"

namespace stator {

namespace {

PyTypeObject* collections_class(const char* name) {
    return imported_class("_collections", name);
}

Task extend_from(Tracer& tracer, DequeValue* deque, Value* iterable, bool left, Value* result) {
    if (iterable == deque) iterable = make_list(tracer, deque->items);
    Value* iterator = co_await operations::iterate(tracer, iterable);
    while (true) {
        Value* item = co_await operations::next(tracer, iterator);
        if (item == tracer.exhausted()) co_return result;
        if (left)
            deque->append_left(tracer, item);
        else
            deque->append(tracer, item);
    }
}

Task find_in(Tracer& tracer, DequeValue* deque, Value* wanted) {
    std::size_t changes = deque->changes;
    for (std::size_t i = 0; i < deque->items.size(); ++i) {
        Value* answer = co_await same_or_equal(tracer, deque->items[i], wanted);
        if (is_true(answer)) co_return answer;
        if (deque->changes != changes) tracer.raise(PyExc_RuntimeError, "deque mutated during iteration");
    }
    co_return tracer.boolean(false);
}

}  // namespace

DequeValue* make_deque(Tracer& tracer, std::vector<Value*> items, Py_ssize_t longest) {
    auto* deque = tracer.make<DequeValue>(deque_class());
    deque->items = std::move(items);
    deque->longest = longest;
    return deque;
}

Outcome extend_deque(Tracer& tracer, DequeValue* deque, Value* iterable, bool left, Value* result) {
    return tracer.start(extend_from(tracer, deque, iterable, left, result));
}

void DequeValue::realize(Tracer& tracer) {
    ObjectValue::realize(tracer);
    Py_ssize_t size = cpython::deque_length(outside);
    tracer.guard({.kind = GuardKind::Length, .source = source, .number = size});
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(class_, interned("maxlen"), &owner);
    if (owner != deque_class())
        tracer.break_graph(BreakKind::UnknownObject, "class " + type_name(class_) + " overrides maxlen");
    Ref<> limit = checked(PyObject_GetAttr(outside, interned("maxlen")));
    Source* place = tracer.provenance().child(source, Access::Member, interned("maxlen"), 0, limit.get());
    tracer.realize(tracer.outside(place, limit.get()));
    longest = limit.get() == Py_None ? -1 : PyLong_AsSsize_t(limit.get());
    items.clear();
    for (Py_ssize_t i = 0; i < size; ++i) {
        PyObject* item = cpython::deque_item(outside, i);
        items.push_back(
            tracer.outside(tracer.provenance().child(source, Access::Item, nullptr, static_cast<int>(i), item), item));
    }
}

void DequeValue::assign(Tracer& tracer, std::vector<Value*> contents, const char* method,
                        std::vector<Value*> arguments) {
    tracer.realize(this);
    if (source != nullptr) {
        arguments.insert(arguments.begin(), this);
        tracer.effects().log(method_effect(deque_class(), method, std::move(arguments)));
    }
    tracer.on_undo([this, before = items, count = changes] {
        items = before;
        changes = count;
    });
    items = std::move(contents);
    ++changes;
}

void DequeValue::append(Tracer& tracer, Value* value) {
    tracer.realize(this);
    if (longest < 0 || static_cast<Py_ssize_t>(items.size()) < longest) {
        if (source != nullptr) tracer.effects().log(method_effect(deque_class(), "append", {this, value}));
        tracer.on_undo([this] {
            items.pop_back();
            --changes;
        });
        items.push_back(value);
        ++changes;
        return;
    }
    std::vector<Value*> contents = items;
    contents.push_back(value);
    contents.erase(contents.begin());
    assign(tracer, std::move(contents), "append", {value});
}

void DequeValue::append_left(Tracer& tracer, Value* value) {
    tracer.realize(this);
    if (longest < 0 || static_cast<Py_ssize_t>(items.size()) < longest) {
        if (source != nullptr) tracer.effects().log(method_effect(deque_class(), "appendleft", {this, value}));
        tracer.on_undo([this] {
            items.erase(items.begin());
            --changes;
        });
        items.insert(items.begin(), value);
        ++changes;
        return;
    }
    std::vector<Value*> contents = items;
    contents.insert(contents.begin(), value);
    contents.pop_back();
    assign(tracer, std::move(contents), "appendleft", {value});
}

Value* DequeValue::take_end(Tracer& tracer, bool left) {
    tracer.realize(this);
    if (source != nullptr) tracer.effects().log(method_effect(deque_class(), left ? "popleft" : "pop", {this}));
    Value* taken = left ? items.front() : items.back();
    tracer.on_undo([this, taken, left] {
        items.insert(left ? items.begin() : items.end(), taken);
        --changes;
    });
    items.erase(left ? items.begin() : items.end() - 1);
    ++changes;
    return taken;
}

std::size_t DequeValue::position(Tracer& tracer, Value* index) {
    auto at = as_index(tracer, index);
    if (!at) {
        if (has_index_method(index)) expect_index(tracer, index);
        raise_type_error(tracer, "sequence index must be integer, not ", index, "");
    }
    if (*at < 0) *at += static_cast<Py_ssize_t>(items.size());
    if (*at < 0 || static_cast<std::size_t>(*at) >= items.size())
        tracer.raise(PyExc_IndexError, "deque index out of range");
    return static_cast<std::size_t>(*at);
}

Outcome DequeValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (name.get() == interned("maxlen")) return longest < 0 ? tracer.none() : tracer.integer(longest);
    return ObjectValue::get_attribute(tracer, name);
}

Outcome DequeValue::get_item(Tracer& tracer, Value* key) {
    return items[position(tracer, key)];
}

void DequeValue::set_item(Tracer& tracer, Value* key, Value* value) {
    std::size_t at = position(tracer, key);
    if (source != nullptr)
        tracer.effects().log(
            method_effect(deque_class(), "__setitem__", {this, tracer.integer(static_cast<std::int64_t>(at)), value}));
    set_undoably(tracer, items, items);
    items[at] = value;
}

void DequeValue::delete_item(Tracer& tracer, Value* key) {
    std::size_t at = position(tracer, key);
    std::vector<Value*> contents = items;
    contents.erase(contents.begin() + static_cast<std::ptrdiff_t>(at));
    assign(tracer, std::move(contents), "__delitem__", {tracer.integer(static_cast<std::int64_t>(at))});
}

Outcome DequeValue::contains(Tracer& tracer, Value* item) {
    return tracer.start(find_in(tracer, this, item));
}

Outcome DequeValue::iterate(Tracer& tracer) {
    static PyTypeObject* const type = collections_class("_deque_iterator");
    return tracer.make<DequeIterator>(type, this, false);
}

Value* DequeValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    tracer.realize(other);
    if (op == BinaryOperator::Add) {
        auto* deque = cast<DequeValue>(other);
        if (deque == nullptr) return nullptr;
        DequeValue* left = reflected ? deque : this;
        DequeValue* right = reflected ? this : deque;
        DequeValue* result = make_deque(tracer, left->items, left->longest);
        for (Value* item : std::vector<Value*>(right->items)) result->append(tracer, item);
        return result;
    }
    if (op == BinaryOperator::Multiply) {
        auto times = as_index(tracer, other);
        if (!times) return nullptr;
        DequeValue* result = make_deque(tracer, {}, longest);
        for (Py_ssize_t i = 0; i < *times; ++i)
            for (Value* item : items) result->append(tracer, item);
        return result;
    }
    return nullptr;
}

Value* DequeValue::in_place(Tracer& tracer, BinaryOperator op, Value* other) {
    if (op != BinaryOperator::Multiply) return nullptr;
    Value* product = binary(tracer, op, other, false);
    if (product == nullptr) return nullptr;
    assign(tracer, static_cast<DequeValue*>(product)->items, "__imul__", {other});
    return this;
}

Outcome DequeValue::update(Tracer& tracer, BinaryOperator op, Value* other) {
    if (op != BinaryOperator::Add) return in_place(tracer, op, other);
    return extend_deque(tracer, this, other, false, this);
}

Outcome DequeValue::compare(Tracer& tracer, Comparison op, Value* other) {
    auto* deque = cast<DequeValue>(other);
    if (deque == nullptr) return nullptr;
    return make_list(tracer, items)->compare(tracer, op, make_list(tracer, deque->items));
}

Py_hash_t DequeValue::hash(Tracer& tracer) {
    return Value::hash(tracer);
}

int DequeValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return rebuild_outside(plan, this);
    static PyObject* const initialise = method_of_class(deque_class(), "__init__");
    static PyObject* const append_item = method_of_class(deque_class(), "append");
    int to = plan.reserve(this);
    Filling filling(plan, this);
    plan.add_to(to, PlanOp::NewObject, {}, reinterpret_cast<PyObject*>(class_));
    if (longest >= 0)
        plan.add(PlanOp::Call, {to, plan.add(PlanOp::Tuple), plan.constant(checked(PyLong_FromSsize_t(longest)))},
                 initialise);
    for (Value* item : items) plan.add(PlanOp::Call, {to, item->rebuild(plan)}, append_item);
    rebuild_attributes(plan, to, this);
    return to;
}

std::string DequeValue::print() const {
    return "deque([" + joined(items, [](Value* item) { return item->print(); }) + "])";
}

Outcome DequeIterator::next(Tracer& tracer) {
    if (taken >= deque->items.size() && deque->changes == changes_) return tracer.exhausted();
    if (deque->changes != changes_) tracer.raise(PyExc_RuntimeError, "deque mutated during iteration");
    set_undoably(tracer, taken, taken + 1);
    return reversed ? deque->items[deque->items.size() - taken] : deque->items[taken - 1];
}

int DequeIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    // An iterator that will raise because the deque was mutated can't be rebuilt without mutating the deque.
    if (deque->changes != changes_) return IteratorValue::rebuild(plan);
    expect_complete(plan, deque, this);
    int over = deque->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Call, {over}, method_of_class(deque_class(), reversed ? "__reversed__" : "__iter__"));
    rebuild_steps(plan, to, taken);
    return to;
}

}  // namespace stator
