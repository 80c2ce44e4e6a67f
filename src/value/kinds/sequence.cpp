#include "value/kinds/sequence.h"

#include <algorithm>

#include "base/check.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "torch/known.h"
#include "value/effect_log.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/constant.h"
#include "value/kinds/container_effects.h"
#include "value/kinds/function.h"
#include "value/kinds/iterator.h"
#include "value/kinds/made_class.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/slice.h"
#include "value/nesting.h"
#include "value/protocol/attributes.h"
#include "value/protocol/identity.h"
#include "value/protocol/index.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"
#include "value/recorder.h"

namespace stator {

namespace {

/// Larger results of `sequence * n` break the graph.
constexpr std::size_t kLongest = 1 << 20;

const char* container_name(const SequenceValue* sequence) {
    return sequence->kind == Kind::Tuple ? "tuple" : "list";
}

/// The result of an operation that derives a new sequence from `like`: only `torch.Size` keeps its class.
Value* make_like(Tracer& tracer, SequenceValue* like, std::vector<Value*> items) {
    if (like->kind == Kind::List) return make_list(tracer, std::move(items));
    return make_tuple(tracer, std::move(items), like->class_ == torch_size_class() ? like->class_ : &PyTuple_Type);
}

/// The position of the field that a class attribute describes, or -1.
Py_ssize_t field_position(PyTypeObject* type, PyObject* raw, Borrowed<> name) {
    if (std::string_view(Py_TYPE(raw)->tp_name) == "collections._tuplegetter" ||
        std::string_view(Py_TYPE(raw)->tp_name) == "_collections._tuplegetter") {
        Ref<> reduced = checked(PyObject_CallMethod(raw, "__reduce__", nullptr));
        return PyLong_AsSsize_t(PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0));
    }
    if (Py_TYPE(raw) != &PyMemberDescr_Type) return -1;
    Ref<> names = Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__match_args__"));
    if (!names || !PyTuple_Check(names.get())) {
        PyErr_Clear();
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(names.get(), i), name) == 0) return i;
    return -1;
}

Task index_then_get(Tracer& tracer, SequenceValue* sequence, Value* key) {
    Value* index = co_await operations::call_method(tracer, key, "__index__", Arguments::of());
    co_return co_await sequence->get_item(tracer, index);
}

Task find_in(Tracer& tracer, SequenceValue* sequence, Value* wanted) {
    for (std::size_t i = 0; i < sequence->items.size(); ++i) {
        Value* answer = co_await same_or_equal(tracer, sequence->item(tracer, i), wanted);
        if (is_true(answer)) co_return answer;
    }
    co_return tracer.boolean(false);
}

Task compare_items(Tracer& tracer, Comparison op, SequenceValue* left, SequenceValue* right) {
    std::size_t i = 0;
    for (; i < left->items.size() && i < right->items.size(); ++i) {
        Value* answer = co_await same_or_equal(tracer, left->item(tracer, i), right->item(tracer, i));
        if (!is_true(answer)) break;
    }
    if (i >= left->items.size() || i >= right->items.size()) {
        auto l = left->items.size(), r = right->items.size();
        bool answer = op == Comparison::Less        ? l < r
                      : op == Comparison::LessEqual ? l <= r
                      : op == Comparison::Equal     ? l == r
                      : op == Comparison::NotEqual  ? l != r
                      : op == Comparison::Greater   ? l > r
                                                    : l >= r;
        co_return tracer.boolean(answer);
    }
    if (op == Comparison::Equal) co_return tracer.boolean(false);
    if (op == Comparison::NotEqual) co_return tracer.boolean(true);
    co_return co_await operations::compare(tracer, op, left->item(tracer, i), right->item(tracer, i));
}

Task extend_from(Tracer& tracer, ListValue* list, Value* iterable) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    co_await operations::call_length_hint(tracer, iterable);
    while (true) {
        Value* item = co_await operations::next(tracer, iterator);
        if (item == tracer.exhausted()) break;
        list->append(tracer, item);
    }
    co_return tracer.none();
}

Task extend_then_self(Tracer& tracer, ListValue* list, Value* iterable) {
    co_await extend(tracer, list, iterable);
    co_return list;
}

void put_slice(Tracer& tracer, ListValue* list, Value* slice, const std::vector<Value*>& values) {
    std::vector<Value*> contents = list->all(tracer);
    SliceBounds bounds = resolve_slice(tracer, slice, static_cast<Py_ssize_t>(contents.size()));
    if (bounds.step == 1) {
        Py_ssize_t stop = std::max(bounds.start, bounds.stop);
        contents.erase(contents.begin() + bounds.start, contents.begin() + stop);
        contents.insert(contents.begin() + bounds.start, values.begin(), values.end());
    } else {
        if (static_cast<Py_ssize_t>(values.size()) != bounds.count)
            tracer.raise(PyExc_ValueError, "attempt to assign sequence of size " + std::to_string(values.size()) +
                                               " to extended slice of size " + std::to_string(bounds.count));
        for (Py_ssize_t i = 0, at = bounds.start; i < bounds.count; ++i, at += bounds.step)
            contents[static_cast<std::size_t>(at)] = values[static_cast<std::size_t>(i)];
    }
    list->assign(tracer, std::move(contents), {PlanOp::SetItem, {list, slice, make_list(tracer, values)}});
}

void check_assignable(Tracer& tracer, Value* slice, Value* value) {
    tracer.realize(value);
    if (is_iterable(value)) return;
    // The error message depends on the Python version.
    Ref<> step = checked(PyLong_FromSsize_t(resolve_slice(tracer, slice, 0).step));
    Ref<> whole = checked(PySlice_New(nullptr, nullptr, step.get()));
    Ref<> list = checked(PyList_New(0));
    STATOR_CHECK(PyObject_SetItem(list.get(), whole.get(), Py_None) < 0, "assigning None to a slice did not raise");
    tracer.raise_from_python();
}

Task collect_then_put(Tracer& tracer, ListValue* list, Value* slice, Value* iterable) {
    Value* collected = co_await operations::collect_as_sequence(tracer, iterable);
    put_slice(tracer, list, slice, as_sequence(collected)->all(tracer));
    co_return tracer.none();
}

/// Adding an empty tuple returns the other tuple itself. Null if a new tuple is created.
SequenceValue* sum_of_tuples(Tracer& tracer, SequenceValue* left, SequenceValue* right) {
    if (left->class_ != &PyTuple_Type || right->class_ != &PyTuple_Type) return nullptr;
    if (left->length(tracer) == 0) return right;
    return right->length(tracer) == 0 ? left : nullptr;
}

std::vector<Value*> repeated(Tracer& tracer, const std::vector<Value*>& items, Py_ssize_t times) {
    std::vector<Value*> result;
    if (times <= 0 || items.empty()) return result;
    if (static_cast<std::size_t>(times) > kLongest / items.size())
        tracer.break_graph(BreakKind::UnknownObject, "a sequence of more than a million items is created");
    result.reserve(items.size() * static_cast<std::size_t>(times));
    for (Py_ssize_t i = 0; i < times; ++i) result.insert(result.end(), items.begin(), items.end());
    return result;
}

void check_size_items(Tracer& tracer, const std::vector<Value*>& items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
        symbolic::realize_class(tracer, items[i]);
        if (items[i]->kind == Kind::Constant && !PyLong_Check(items[i]->object()))
            raise_type_error(tracer, "torch.Size() takes an iterable of 'int' (item " + std::to_string(i) + " is ",
                             items[i], ")");
    }
}

}  // namespace

PyTypeObject* torch_size_class() {
    return torch_room::known().size_class;
}

bool has_fields(PyTypeObject* type) {
    if (type == &PyTuple_Type || !PyType_IsSubtype(type, &PyTuple_Type)) return false;
    return cpython::lookup_in_mro(type, interned("_fields"), nullptr) != nullptr ||
           cpython::lookup_in_mro(type, interned("n_sequence_fields"), nullptr) != nullptr;
}

TupleValue* make_tuple(Tracer& tracer, std::vector<Value*> items, PyTypeObject* type) {
    if (type == torch_size_class()) check_size_items(tracer, items);
    auto* tuple = tracer.make<TupleValue>(type);
    tuple->items = std::move(items);
    return tuple;
}

ListValue* make_list(Tracer& tracer, std::vector<Value*> items, PyTypeObject* type) {
    auto* list = tracer.make<ListValue>(type);
    list->items = std::move(items);
    return list;
}

Value* SequenceValue::item(Tracer& tracer, std::size_t index) {
    tracer.realize(this);
    Value*& slot = items[index];
    if (slot == nullptr) {
        auto position = static_cast<Py_ssize_t>(index);
        PyObject* object =
            kind == Kind::Tuple ? PyTuple_GET_ITEM(outside, position) : PyList_GET_ITEM(outside, position);
        Source* child = tracer.provenance().child(source, Access::Item, nullptr, static_cast<int>(index), object);
        slot = tracer.outside(child, object);
    }
    return slot;
}

const std::vector<Value*>& SequenceValue::all(Tracer& tracer) {
    tracer.realize(this);
    for (std::size_t i = 0; i < items.size(); ++i) item(tracer, i);
    return items;
}

void SequenceValue::realize(Tracer& tracer) {
    auto size = kind == Kind::Tuple ? PyTuple_GET_SIZE(outside) : PyList_GET_SIZE(outside);
    tracer.guard({GuardKind::Type, source, reinterpret_cast<PyObject*>(class_)});
    tracer.guard({.kind = GuardKind::Length, .source = source, .number = size});
    items.assign(static_cast<std::size_t>(size), nullptr);
    if (auto* list = cast<ListValue>(static_cast<Value*>(this)))
        items.insert(items.end(), list->appended.begin(), list->appended.end());
}

Ref<> SequenceValue::as_constant(Tracer& tracer) {
    tracer.realize(this);
    bool plain = class_ == &PyTuple_Type || class_ == &PyList_Type;
    if (!plain && (kind == Kind::List || !attributes.empty())) return nullptr;
    if (!plain && class_ != torch_size_class() && !has_fields(class_)) return nullptr;
    if (MadeClass::find(class_) != nullptr) return nullptr;
    if (Nesting::is_endless(this)) return nullptr;
    Nesting nesting(this);
    auto size = static_cast<Py_ssize_t>(items.size());
    Ref<> made = Ref<>::steal(kind == Kind::Tuple ? PyTuple_New(size) : PyList_New(size));
    if (!made) throw PythonError();
    for (Py_ssize_t i = 0; i < size; ++i) {
        Value* part = item(tracer, static_cast<std::size_t>(i));
        tracer.realize(part);
        if (part->kind == Kind::Constant && runs_program_code(part->object())) return nullptr;
        Ref<> known = part->as_constant(tracer);
        if (!known) return nullptr;
        if (kind == Kind::Tuple)
            PyTuple_SET_ITEM(made.get(), i, known.release());
        else
            PyList_SET_ITEM(made.get(), i, known.release());
    }
    if (plain) return made;
    Ref<> arguments = checked(PyTuple_Pack(1, made.get()));
    // The `__new__` of a named tuple takes the fields as arguments; `tuple.__new__` takes an iterable.
    bool named = cpython::lookup_in_mro(class_, interned("_fields"), nullptr) != nullptr;
    newfunc create = named ? PyTuple_Type.tp_new : class_->tp_new;
    return checked(create(class_, arguments.get(), nullptr));
}

Outcome SequenceValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    tracer.realize(this);
    if (const MadeClass* made = MadeClass::find(class_)) made->expect_own_part(tracer, name);
    if (has_fields(class_)) {
        PyObject* raw = nullptr;
        if (class_attribute(tracer, class_, name, &raw) != nullptr && raw != nullptr) {
            Py_ssize_t position = field_position(class_, raw, name);
            if (position >= 0 && static_cast<std::size_t>(position) < items.size())
                return item(tracer, static_cast<std::size_t>(position));
        }
    }
    return generic_get_attribute(tracer, this, name);
}

Outcome SequenceValue::get_item(Tracer& tracer, Value* key) {
    tracer.realize(this);
    tracer.realize(key);
    if (is_slice(key)) {
        SliceBounds bounds = resolve_slice(tracer, key, static_cast<Py_ssize_t>(items.size()));
        std::vector<Value*> taken;
        taken.reserve(static_cast<std::size_t>(bounds.count));
        for (Py_ssize_t i = 0, at = bounds.start; i < bounds.count; ++i, at += bounds.step)
            taken.push_back(item(tracer, static_cast<std::size_t>(at)));
        if (kind == Kind::Tuple && class_ == &PyTuple_Type && taken.size() == items.size() && bounds.step == 1)
            return this;
        return make_like(tracer, this, std::move(taken));
    }
    auto index = as_index(tracer, key);
    if (!index) {
        if (has_index_method(key)) return tracer.start(index_then_get(tracer, this, key));
        tracer.raise(PyExc_TypeError, std::string(container_name(this)) + " indices must be integers or slices, not " +
                                          key->type()->tp_name);
    }
    if (*index < 0) *index += static_cast<Py_ssize_t>(items.size());
    if (*index < 0 || static_cast<std::size_t>(*index) >= items.size())
        tracer.raise(PyExc_IndexError, std::string(container_name(this)) + " index out of range");
    return item(tracer, static_cast<std::size_t>(*index));
}

Outcome SequenceValue::contains(Tracer& tracer, Value* wanted) {
    tracer.realize(this);
    for (std::size_t i = 0; i < items.size(); ++i) {
        auto answer = equal_at_once(tracer, item(tracer, i), wanted);
        if (!answer) return tracer.start(find_in(tracer, this, wanted));
        if (*answer) return tracer.boolean(true);
    }
    return tracer.boolean(false);
}

std::ptrdiff_t SequenceValue::length(Tracer& tracer) {
    tracer.realize(this);
    return static_cast<std::ptrdiff_t>(items.size());
}

bool SequenceValue::truth(Tracer& tracer) {
    return length(tracer) != 0;
}

Outcome SequenceValue::iterate(Tracer& tracer) {
    tracer.realize(this);
    return tracer.make<SequenceIterator>(kind == Kind::Tuple ? &PyTupleIter_Type : &PyListIter_Type, this);
}

Value* SequenceValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    tracer.realize(this);
    tracer.realize(other);
    if (op == BinaryOperator::Add) {
        SequenceValue* sequence = as_sequence(other);
        if (sequence == nullptr || sequence->kind != kind) return nullptr;
        SequenceValue* left = reflected ? sequence : this;
        SequenceValue* right = reflected ? this : sequence;
        if (SequenceValue* itself = sum_of_tuples(tracer, left, right)) return itself;
        std::vector<Value*> contents = left->all(tracer);
        const auto& tail = right->all(tracer);
        contents.insert(contents.end(), tail.begin(), tail.end());
        return make_like(tracer, sequence->class_ == torch_size_class() ? sequence : this, std::move(contents));
    }
    if (op == BinaryOperator::Multiply) {
        auto times = as_index(tracer, other);
        if (!times) {
            if (other->kind == Kind::Object && has_index_method(other)) expect_index(tracer, other);
            return nullptr;
        }
        if (*times == 1 && class_ == &PyTuple_Type) return this;
        return make_like(tracer, this, repeated(tracer, all(tracer), *times));
    }
    return nullptr;
}

Outcome SequenceValue::compare(Tracer& tracer, Comparison op, Value* other) {
    tracer.realize(this);
    tracer.realize(other);
    SequenceValue* sequence = as_sequence(other);
    if (sequence == nullptr || sequence->kind != kind) return nullptr;
    // Lists of different lengths are unequal without comparing items; tuples do compare them.
    if (kind == Kind::List && items.size() != sequence->items.size()) {
        if (op == Comparison::Equal) return tracer.boolean(false);
        if (op == Comparison::NotEqual) return tracer.boolean(true);
    }
    return tracer.start(compare_items(tracer, op, this, sequence));
}

graph::Argument SequenceValue::as_argument(Tracer& tracer) {
    const auto& parts = all(tracer);
    auto* argument = tracer.recorder().graph_arena().make<graph::Argument::Items>();
    argument->values.reserve(parts.size());
    for (Value* part : parts) {
        if (part->kind != Kind::Constant) tracer.realize(part);  // a constant is realized when needed
        argument->values.push_back(part->as_argument(tracer));
    }
    if (class_ != &PyTuple_Type && class_ != &PyList_Type) argument->type = class_;
    return graph::Argument::of_items(kind == Kind::Tuple ? graph::Argument::Kind::Tuple : graph::Argument::Kind::List,
                                     argument);
}

int SequenceValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return rebuild_outside(plan, this);
    if (is_literal()) return plan.constant(outside);
    if (kind == Kind::List && !(class_ == &PyList_Type && all_leaves(items))) {
        int to = plan.reserve(this);
        if (class_ == &PyList_Type)
            plan.add_to(to, PlanOp::List);
        else
            plan.add_to(to, PlanOp::NewObject, {}, reinterpret_cast<PyObject*>(class_));
        for (Value* part : items) plan.add(PlanOp::Append, {to, part->rebuild(plan)});
        rebuild_attributes(plan, to, this);
        return to;
    }
    std::vector<std::int32_t> parts;
    parts.reserve(items.size());
    for (Value* part : items) parts.push_back(part->rebuild(plan));
    // In a reference cycle (a list that contains the tuple), rebuilding the items may already have rebuilt it.
    if (int known = plan.known(this); known >= 0) return known;
    if (const MadeClass* made = MadeClass::find(class_)) return made->rebuild_instance(plan, this, std::move(parts));
    int to = plan.reserve(this);
    bool plain = class_ == &PyTuple_Type || class_ == &PyList_Type;
    plan.add_to(to, kind == Kind::Tuple ? PlanOp::Tuple : PlanOp::List, std::move(parts),
                plain ? nullptr : reinterpret_cast<PyObject*>(class_));
    rebuild_attributes(plan, to, this);
    return to;
}

std::string SequenceValue::print() const {
    std::string name = class_ == &PyTuple_Type || class_ == &PyList_Type ? "" : type_name(class_);
    if (!realized) return source != nullptr ? stator::print(*source) : name;
    if (Nesting::depth() > 3) return name + (kind == Kind::Tuple ? "(...)" : "[...]");
    Nesting nesting(this);
    std::string parts = joined(items, [](Value* part) { return part == nullptr ? std::string("?") : part->print(); });
    if (kind == Kind::List) return name + "[" + parts + "]";
    return name + "(" + parts + (items.size() == 1 ? ",)" : ")");
}

Py_hash_t TupleValue::hash(Tracer& tracer) {
    // Items that are hashed by identity or by user code install their own guards.
    for (std::size_t i = 0; i < items.size(); ++i)
        if (Value* part = item(tracer, i); part->kind == Kind::Constant || part->kind == Kind::Tuple)
            part->hash(tracer);
    if (Ref<> known = as_constant(tracer)) {
        Py_hash_t hash = PyObject_Hash(known.get());
        if (hash == -1) tracer.raise_from_python();
        return hash;
    }
    std::size_t mixed = 0x345678;
    for (Value* part : all(tracer)) {
        tracer.realize(part);
        mixed = (mixed ^ static_cast<std::size_t>(part->hash(tracer))) * 1000003;
    }
    return static_cast<Py_hash_t>(mixed >> 1);
}

Py_hash_t ListValue::hash(Tracer& tracer) {
    if (operations::user_method(tracer, this, "__hash__") != nullptr) return ObjectValue::hash(tracer);
    raise_type_error(tracer, "unhashable type: ", this, "");
}

namespace {

/// Where an assignment to `list[key]`, or its deletion, takes place.
std::size_t assigned_index(Tracer& tracer, std::size_t size, Value* key) {
    auto index = as_index(tracer, key);
    if (!index) {
        if (has_index_method(key)) expect_index(tracer, key);
        tracer.raise(PyExc_TypeError,
                     std::string("list indices must be integers or slices, not ") + key->type()->tp_name);
    }
    if (*index < 0) *index += static_cast<Py_ssize_t>(size);
    if (*index < 0 || static_cast<std::size_t>(*index) >= size)
        tracer.raise(PyExc_IndexError, "list assignment index out of range");
    return static_cast<std::size_t>(*index);
}

}  // namespace

void ListValue::set_item(Tracer& tracer, Value* key, Value* value) {
    tracer.realize(this);
    tracer.realize(key);
    if (is_slice(key)) {
        check_assignable(tracer, key, value);
        auto values = items_now(tracer, value);
        if (!values) tracer.break_graph(BreakKind::UnknownObject, "a slice is assigned from a user-defined iterator");
        put_slice(tracer, this, key, *values);
        return;
    }
    std::size_t index = assigned_index(tracer, items.size(), key);
    if (source != nullptr)
        tracer.effects().log({PlanOp::SetItem, {this, tracer.integer(static_cast<std::int64_t>(index)), value}});
    replace(tracer, index, value);
}

Outcome ListValue::assign_item(Tracer& tracer, Value* key, Value* value) {
    tracer.realize(this);
    tracer.realize(key);
    if (!is_slice(key)) {
        set_item(tracer, key, value);
        return tracer.none();
    }
    check_assignable(tracer, key, value);
    if (auto values = items_now(tracer, value)) {
        put_slice(tracer, this, key, *values);
        return tracer.none();
    }
    return tracer.start(collect_then_put(tracer, this, key, value));
}

void ListValue::replace(Tracer& tracer, std::size_t position, Value* value) {
    Value* before = item(tracer, position);
    tracer.on_undo([this, position, before] { items[position] = before; });
    items[position] = value;
}

void ListValue::delete_item(Tracer& tracer, Value* key) {
    tracer.realize(this);
    tracer.realize(key);
    if (is_slice(key)) {
        std::vector<Value*> contents = all(tracer);
        SliceBounds bounds = resolve_slice(tracer, key, static_cast<Py_ssize_t>(contents.size()));
        for (Py_ssize_t i = 0, at = bounds.start; i < bounds.count; ++i, at += bounds.step)
            contents[static_cast<std::size_t>(at)] = nullptr;
        std::erase(contents, nullptr);
        assign(tracer, std::move(contents), {PlanOp::SetItem, {this, key, nullptr}});
        return;
    }
    remove(tracer, assigned_index(tracer, items.size(), key));
}

Value* ListValue::in_place(Tracer& tracer, BinaryOperator op, Value* other) {
    tracer.realize(this);
    tracer.realize(other);
    if (op == BinaryOperator::Add) {
        auto values = items_now(tracer, other);
        if (!values) tracer.break_graph(BreakKind::UnknownObject, "a list is extended from a user-defined iterator");
        for (Value* value : *values) append(tracer, value);
        return this;
    }
    if (op == BinaryOperator::Multiply) {
        auto times = as_index(tracer, other);
        if (!times) return nullptr;
        assign(tracer, repeated(tracer, all(tracer), *times), method_effect(&PyList_Type, "__imul__", {this, other}));
        return this;
    }
    return nullptr;
}

Outcome ListValue::update(Tracer& tracer, BinaryOperator op, Value* other) {
    if (op != BinaryOperator::Add) return in_place(tracer, op, other);
    return tracer.start(extend_then_self(tracer, this, other));
}

void ListValue::assign(Tracer& tracer, std::vector<Value*> contents) {
    if (source == nullptr) return assign(tracer, std::move(contents), {});
    Value* everything = tracer.make<SliceValue>(tracer.none(), tracer.none(), tracer.none());
    Effect effect{PlanOp::SetItem, {this, everything, make_list(tracer, contents)}};
    assign(tracer, std::move(contents), std::move(effect));
}

std::vector<Value*> ListValue::begin_sort(Tracer& tracer) {
    refuse_in_sort(tracer);
    std::vector<Value*> contents = all(tracer);
    tracer.on_undo([this, before = contents] {
        items = before;
        is_in_sort = false;
    });
    items.clear();
    is_in_sort = true;
    return contents;
}

void ListValue::end_sort(Tracer& tracer, std::vector<Value*> sorted) {
    tracer.on_undo([this] {
        items.clear();
        is_in_sort = true;
    });
    is_in_sort = false;
    assign(tracer, std::move(sorted));
}

void ListValue::refuse_in_sort(Tracer& tracer) const {
    if (is_in_sort) tracer.break_graph(BreakKind::UnknownObject, "a list is mutated while it is sorted");
}

void ListValue::assign(Tracer& tracer, std::vector<Value*> contents, Effect effect) {
    tracer.realize(this);
    refuse_in_sort(tracer);
    if (source != nullptr) tracer.effects().log(std::move(effect));
    tracer.on_undo([this, before = items] { items = before; });
    items = std::move(contents);
}

void ListValue::append(Tracer& tracer, Value* value) {
    refuse_in_sort(tracer);
    if (source != nullptr) tracer.effects().log({PlanOp::Append, {this, value}});
    if (!realized) {
        tracer.on_undo([this] { appended.pop_back(); });
        appended.push_back(value);
        return;
    }
    tracer.on_undo([this] { items.pop_back(); });
    items.push_back(value);
}

void ListValue::insert(Tracer& tracer, std::size_t position, Value* value) {
    refuse_in_sort(tracer);
    all(tracer);
    if (source != nullptr)
        tracer.effects().log(
            method_effect(&PyList_Type, "insert", {this, tracer.integer(static_cast<std::int64_t>(position)), value}));
    tracer.on_undo([this, position] { items.erase(items.begin() + static_cast<std::ptrdiff_t>(position)); });
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(position), value);
}

Value* ListValue::remove(Tracer& tracer, std::size_t position) {
    // Earlier items keep their positions.
    if (position + 1 < items.size()) all(tracer);
    Value* removed = item(tracer, position);
    if (source != nullptr)
        tracer.effects().log({PlanOp::SetItem, {this, tracer.integer(static_cast<std::int64_t>(position)), nullptr}});
    tracer.on_undo(
        [this, position, removed] { items.insert(items.begin() + static_cast<std::ptrdiff_t>(position), removed); });
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(position));
    return removed;
}

Value* method_for_growing(Tracer& tracer, Value* object, Borrowed<> name) {
    if (object->realized || object->kind != Kind::List || object->type() != &PyList_Type) return nullptr;
    if (name.get() != interned("append") && name.get() != interned("extend")) return nullptr;
    tracer.guard({GuardKind::Type, object->source, reinterpret_cast<PyObject*>(&PyList_Type)});
    PyObject* method = PyDict_GetItemWithError(cpython::class_dict(&PyList_Type), name);
    return tracer.make<MethodValue>(tracer.constant(method), object);
}

Outcome extend(Tracer& tracer, ListValue* list, Value* iterable) {
    tracer.realize(iterable);
    if (auto values = items_now(tracer, iterable)) {
        for (Value* value : *values) list->append(tracer, value);
        return tracer.none();
    }
    return tracer.start(extend_from(tracer, list, iterable));
}

}  // namespace stator
