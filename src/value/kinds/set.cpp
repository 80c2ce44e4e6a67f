#include "value/kinds/set.h"

#include <algorithm>
#include <string_view>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "effect/plan.h"
#include "value/effect_log.h"
#include "value/kinds/container_effects.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/protocol/identity.h"
#include "value/protocol/keys.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"

namespace stator {

Ref<> element_object(Tracer& tracer, Value* value) {
    switch (value->kind) {
        case Kind::Constant:
        case Kind::Class:
        case Kind::Builtin:
        case Kind::PythonModule:
            return Ref<>::share(value->object());
        case Kind::Tuple:
        case Kind::Set:
            return value->as_constant(tracer);
        default:
            return nullptr;
    }
}

namespace {

PyTypeObject* base_class(const SetValue* set) {
    return set->is_frozen() ? &PyFrozenSet_Type : &PySet_Type;
}

/// The operand `right` for a method of a real set; empty if an element is not a constant.
Ref<> real_operand(Tracer& tracer, Value* right) {
    if (auto* set = cast<SetValue>(right)) return Ref<>::share(set->real(tracer));
    Ref<> list = checked(PyList_New(0));
    for (Value* value : as_sequence(right)->all(tracer)) {
        tracer.realize(value);
        value->hash(tracer);
        Ref<> object = element_object(tracer, value);
        if (!object) return nullptr;
        checked(PyList_Append(list.get(), object.get()));
    }
    return list;
}

std::vector<Value*> elements_of(Tracer& tracer, Value* value) {
    if (auto* set = cast<SetValue>(value)) return set->in_order(tracer);
    return as_sequence(value)->all(tracer);
}

/// The elements of `left.name(right)`. Where Python's order depends on addresses, any order will do.
std::vector<Value*> combined(Tracer& tracer, std::string_view name, SetValue* left, Value* right) {
    std::vector<Value*> mine = left->in_order(tracer), theirs = elements_of(tracer, right);
    SetValue* other = make_set(tracer, theirs);
    std::vector<Value*> result;
    for (Value* element : mine) {
        bool shared = name != "union" && other->table.find(tracer, element) != nullptr;
        if (name == "union" || shared == (name == "intersection")) result.push_back(element);
    }
    if (name == "union" || name == "symmetric_difference")
        for (Table::Entry* entry : other->table.entries())
            if (left->table.find(tracer, entry->key) == nullptr) result.push_back(entry->key);
    return result;
}

const char* method_of(BinaryOperator op) {
    switch (op) {
        case BinaryOperator::And:
            return "intersection";
        case BinaryOperator::Or:
            return "union";
        case BinaryOperator::Subtract:
            return "difference";
        case BinaryOperator::Xor:
            return "symmetric_difference";
        default:
            return nullptr;
    }
}

}  // namespace

SetValue* make_set(Tracer& tracer, const std::vector<Value*>& elements, PyTypeObject* type) {
    auto* set = tracer.make<SetValue>(type);
    for (Value* element : elements) set->table.insert(tracer, element, nullptr);
    return set;
}

void SetValue::realize(Tracer& tracer) {
    ObjectValue::realize(tracer);
    Ref<> iterator = checked(PyObject_GetIter(outside));
    std::vector<Value*> elements;
    std::int64_t how = 0;
    while (Ref<> object = Ref<>::steal(PyIter_Next(iterator.get()))) {
        bool by_identity = is_member_by_identity(object.get());
        Value* element =
            by_identity ? tracer.outside(tracer.provenance().pinned(object), object) : tracer.constant(object);
        const bool is_function = element->kind == Kind::Function;
        if (by_identity || is_function) how = kByIdentity;
        tracer.realize(element);
        mark_as_member(element, this, tracer.keep(Ref<>::share(object.get())));
        if (!is_function && !element_object(tracer, element))
            tracer.break_graph(BreakKind::UnknownObject,
                               "a set that existed before the call has elements that are not constants");
        elements.push_back(element);
    }
    tracer.guard({GuardKind::Elements, source, tracer.keep(checked(PyFrozenSet_New(outside))), how});
    for (Value* element : elements) table.insert(tracer, element, nullptr);
    real_ = outside;
}

PyObject* SetValue::real(Tracer& tracer) {
    tracer.realize(this);
    if (order_is_lost_)
        tracer.break_graph(BreakKind::UnknownObject,
                           print() + ", which existed before the call, is iterated over after it was mutated");
    if (real_ != nullptr && static_cast<std::size_t>(PySet_GET_SIZE(real_)) == table.size()) return real_;
    if (unknown_) return nullptr;
    // A frozenset that no one else references can still be filled.
    Ref<> made = checked(is_frozen() ? PyFrozenSet_New(nullptr) : PySet_New(nullptr));
    for (Table::Entry* entry : table.entries()) {
        Ref<> object = element_object(tracer, entry->key);
        if (!object) {
            unknown_ = true;
            return nullptr;
        }
        checked(PySet_Add(made.get(), object.get()));
    }
    real_ = tracer.keep(std::move(made));
    return real_;
}

/// The real set that is mutated along with this value; never the program's set.
PyObject* SetValue::twin(Tracer& tracer) {
    PyObject* known = real(tracer);
    if (known == nullptr || known != outside) return known;
    tracer.on_undo([this] { real_ = outside; });
    real_ = tracer.keep(checked(PySet_New(outside)));
    return real_;
}

void SetValue::take_over(Tracer& tracer, Ref<> real_set, SetValue* left, SetValue* right) {
    real_ = tracer.keep(std::move(real_set));
    Ref<> iterator = checked(PyObject_GetIter(real_));
    while (Ref<> object = Ref<>::steal(PyIter_Next(iterator.get()))) {
        Value* element = tracer.constant(object);
        for (SetValue* operand : {left, right})
            if (Table::Entry* entry = operand == nullptr ? nullptr : operand->table.find(tracer, element)) {
                element = entry->key;
                break;
            }
        table.insert(tracer, element, nullptr);
    }
}

std::vector<Value*> SetValue::in_order(Tracer& tracer) {
    std::vector<Value*> elements;
    if (PyObject* known = real(tracer)) {
        Ref<> iterator = checked(PyObject_GetIter(known));
        while (Ref<> object = Ref<>::steal(PyIter_Next(iterator.get()))) {
            Table::Entry* entry = table.find(tracer, tracer.constant(object));
            STATOR_CHECK(entry != nullptr, "a set and its real counterpart differ");
            elements.push_back(entry->key);
        }
        return elements;
    }
    for (Table::Entry* entry : table.entries()) {
        if (has_own_hash(entry->key))
            tracer.break_graph(BreakKind::UnknownObject,
                               "iteration over a set whose elements have a user-defined __hash__");
        elements.push_back(entry->key);
    }
    return elements;
}

void SetValue::add(Tracer& tracer, Value* element) {
    tracer.realize(this);
    if (table.find(tracer, element) != nullptr) return;
    if (source != nullptr) tracer.effects().log({PlanOp::Add, {this, element}});
    put(tracer, element);
}

void SetValue::lose_order(Tracer& tracer) {
    if (source != nullptr && real_ == outside) set_undoably(tracer, order_is_lost_, true);
}

void SetValue::put(Tracer& tracer, Value* element) {
    lose_order(tracer);
    if (order_is_lost_) return table.insert(tracer, element, nullptr);
    PyObject* other = twin(tracer);
    table.insert(tracer, element, nullptr);
    if (other == nullptr) return;
    Ref<> object = element_object(tracer, element);
    if (!object) {
        tracer.on_undo([this] { unknown_ = false; });
        unknown_ = true;
        return;
    }
    checked(PySet_Add(other, object.get()));
    tracer.on_undo([other, kept = tracer.keep(std::move(object))] { PySet_Discard(other, kept); });
}

/// A set is merged in one operation: its size decides how the table grows, and that decides the order.
void SetValue::merge(Tracer& tracer, SetValue* other) {
    tracer.realize(this);
    PyObject* theirs = other->real(tracer);
    PyObject* mine = theirs == nullptr ? nullptr : twin(tracer);
    if (mine == nullptr) {
        for (Value* element : other->in_order(tracer)) add(tracer, element);
        return;
    }
    tracer.on_undo([this, mine, before = tracer.keep(checked(PySet_New(mine)))] {
        if (real_ == mine) real_ = before;
    });
    for (Value* element : other->in_order(tracer))
        if (table.find(tracer, element) == nullptr) table.insert(tracer, element, nullptr);
    checked(PyObject_CallMethodOneArg(mine, interned("update"), theirs));
}

bool SetValue::discard(Tracer& tracer, Value* element) {
    tracer.realize(this);
    Table::Entry* entry = table.find(tracer, element);
    if (entry == nullptr) return false;
    if (source != nullptr) tracer.effects().log(method_effect(&PySet_Type, "discard", {this, entry->key}));
    take(tracer, entry);
    return true;
}

void SetValue::take(Tracer& tracer, Table::Entry* entry) {
    lose_order(tracer);
    if (PyObject* other = order_is_lost_ ? nullptr : twin(tracer)) {
        PyObject* kept = tracer.keep(element_object(tracer, entry->key));
        checked(PySet_Discard(other, kept));
        tracer.on_undo([other, kept] { PySet_Add(other, kept); });
    }
    table.erase(tracer, entry);
}

void SetValue::clear(Tracer& tracer) {
    tracer.realize(this);
    if (source != nullptr) tracer.effects().log(method_effect(&PySet_Type, "clear", {this}));
    table.clear(tracer);
    set_undoably(tracer, real_, nullptr);
    set_undoably(tracer, unknown_, false);
    set_undoably(tracer, order_is_lost_, false);
}

Value* SetValue::pop(Tracer& tracer) {
    tracer.realize(this);
    if (table.size() == 0) return nullptr;
    Table::Entry* entry = table.entries().front();
    if (source != nullptr) {
        // Which one it is depends on what was popped before, unless there is just one.
        if (table.size() > 1) tracer.effects().expect_made_in_trace(this);
        Value* last = entry->key;
        discard(tracer, last);
        return last;
    }
    if (PyObject* other = twin(tracer)) {
        // A real pop moves the position at which the next one starts searching.
        PyObject* object = tracer.keep(checked(PyObject_CallMethod(other, "pop", nullptr)));
        tracer.on_undo([other, object] { PySet_Add(other, object); });
        entry = table.find(tracer, tracer.constant(object));
    }
    Value* element = entry->key;
    table.erase(tracer, entry);
    return element;
}

Ref<> SetValue::as_constant(Tracer& tracer) {
    if (class_ != &PySet_Type && class_ != &PyFrozenSet_Type) return nullptr;
    PyObject* known = real(tracer);
    if (known == nullptr) return nullptr;
    return checked(is_frozen() ? PyFrozenSet_New(known) : PySet_New(known));
}

Outcome SetValue::contains(Tracer& tracer, Value* item) {
    tracer.realize(this);
    tracer.realize(item);
    // `set in set` looks up an equal frozenset.
    if (auto* set = cast<SetValue>(item); set != nullptr && !set->is_frozen())
        item = make_set(tracer, set->in_order(tracer), &PyFrozenSet_Type);
    return tracer.boolean(table.find(tracer, item) != nullptr);
}

std::ptrdiff_t SetValue::length(Tracer& tracer) {
    tracer.realize(this);
    return static_cast<std::ptrdiff_t>(table.size());
}

bool SetValue::truth(Tracer& tracer) {
    return length(tracer) != 0;
}

Outcome SetValue::iterate(Tracer& tracer) {
    return tracer.make<SetIterator>(tracer, this);
}

SetValue* combine_sets(Tracer& tracer, const char* name, SetValue* left, Value* right) {
    PyObject* mine = left->real(tracer);
    Ref<> theirs = mine != nullptr ? real_operand(tracer, right) : Ref<>();
    if (!theirs) return make_set(tracer, combined(tracer, name, left, right), base_class(left));
    Ref<> real = checked(PyObject_CallMethodOneArg(mine, interned(name), theirs.get()));
    auto* result = tracer.make<SetValue>(base_class(left));
    result->take_over(tracer, std::move(real), left, cast<SetValue>(right));
    return result;
}

namespace {

/// `update_set` for an outside set.
void update_outside_set(Tracer& tracer, std::string_view which, SetValue* target, Value* other) {
    std::vector<Value*> theirs;
    if (auto* set = cast<SetValue>(other)) {
        tracer.realize(set);
        for (Table::Entry* entry : set->table.entries()) theirs.push_back(entry->key);
    } else {
        theirs = as_sequence(other)->all(tracer);
    }
    SetValue* operand = make_set(tracer, theirs);
    for (Table::Entry* entry : target->table.entries())
        if (which == "intersection" && operand->table.find(tracer, entry->key) == nullptr) target->take(tracer, entry);
    for (Table::Entry* theirs_entry : operand->table.entries()) {
        Table::Entry* mine = target->table.find(tracer, theirs_entry->key);
        if (mine == nullptr && (which == "union" || which == "symmetric_difference"))
            target->put(tracer, theirs_entry->key);
        if (mine != nullptr && (which == "difference" || which == "symmetric_difference")) target->take(tracer, mine);
    }
    // A set created in the trace may change later, so the plan rebuilds it in its current state.
    if (other->source == nullptr && cast<SetValue>(other) != nullptr)
        other = operand;
    else if (other->source == nullptr)
        other = make_list(tracer, theirs);
    std::string method = which == "union" ? "update" : std::string(which) + "_update";
    tracer.effects().log(method_effect(&PySet_Type, method.c_str(), {target, other}));
}

}  // namespace

void update_set(Tracer& tracer, const char* name, SetValue* target, Value* other) {
    tracer.realize(target);
    std::string_view which = name;
    if (target->source != nullptr) return update_outside_set(tracer, which, target, other);
    if (which == "union") {
        if (auto* set = cast<SetValue>(other)) return target->merge(tracer, set);
        for (Value* element : elements_of(tracer, other)) target->add(tracer, element);
        return;
    }
    if (which == "difference") {
        for (Value* element : elements_of(tracer, other)) target->discard(tracer, element);
        return;
    }
    SetValue* result = combine_sets(tracer, name, target, other);
    std::vector<Value*> elements = result->in_order(tracer);
    target->clear(tracer);
    for (Value* element : elements) target->add(tracer, element);
}

Value* SetValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    const char* name = method_of(op);
    auto* set = cast<SetValue>(other);
    if (name == nullptr || set == nullptr) return nullptr;
    tracer.realize(set);
    return reflected ? combine_sets(tracer, name, set, this) : combine_sets(tracer, name, this, set);
}

Value* SetValue::in_place(Tracer& tracer, BinaryOperator op, Value* other) {
    const char* name = method_of(op);
    auto* set = cast<SetValue>(other);
    if (name == nullptr || set == nullptr || is_frozen()) return nullptr;
    update_set(tracer, name, this, set);
    return this;
}

bool is_subset(Tracer& tracer, SetValue* left, SetValue* right) {
    if (left->length(tracer) > right->length(tracer)) return false;
    return std::ranges::all_of(left->table.entries(),
                               [&](Table::Entry* entry) { return right->table.find(tracer, entry->key) != nullptr; });
}

Outcome SetValue::compare(Tracer& tracer, Comparison op, Value* other) {
    tracer.realize(this);
    tracer.realize(other);
    auto* set = cast<SetValue>(other);
    if (set == nullptr) return nullptr;
    std::ptrdiff_t mine = length(tracer), theirs = set->length(tracer);
    switch (op) {
        case Comparison::Equal:
            return tracer.boolean(mine == theirs && is_subset(tracer, this, set));
        case Comparison::NotEqual:
            return tracer.boolean(mine != theirs || !is_subset(tracer, this, set));
        case Comparison::LessEqual:
            return tracer.boolean(is_subset(tracer, this, set));
        case Comparison::Less:
            return tracer.boolean(mine < theirs && is_subset(tracer, this, set));
        case Comparison::GreaterEqual:
            return tracer.boolean(is_subset(tracer, set, this));
        case Comparison::Greater:
            return tracer.boolean(theirs < mine && is_subset(tracer, set, this));
    }
    return nullptr;
}

Py_hash_t SetValue::hash(Tracer& tracer) {
    if (!is_frozen()) raise_type_error(tracer, "unhashable type: ", this, "");
    if (PyObject* known = real(tracer)) {
        Ref<> frozen = checked(PyFrozenSet_New(known));
        return PyObject_Hash(frozen.get());
    }
    std::size_t mixed = table.size();
    for (Table::Entry* entry : table.entries()) mixed ^= static_cast<std::size_t>(entry->hash) * 1927868237u;
    return static_cast<Py_hash_t>(mixed >> 1);
}

graph::Argument SetValue::as_argument(Tracer& tracer) {
    Ref<> known = as_constant(tracer);
    if (!known) return ObjectValue::as_argument(tracer);
    return graph::Argument::of_constant(tracer.keep(std::move(known)));
}

namespace {

bool have_same_order(PyObject* left, PyObject* right) {
    Ref<> one = checked(PySequence_List(left)), other = checked(PySequence_List(right));
    Py_ssize_t size = PyList_GET_SIZE(one.get());
    if (size != PyList_GET_SIZE(other.get())) return false;
    for (Py_ssize_t i = 0; i < size; ++i)
        if (PyList_GET_ITEM(one.get(), i) != PyList_GET_ITEM(other.get(), i)) return false;
    return true;
}

/// A set that is rebuilt element by element, or as a copy of the real set with the same history, has the program's
/// iteration order. Otherwise the order depends on addresses or on a history that can't be repeated.
enum class Rebuilt : std::uint8_t { InOrder, AsCopy, InAnyOrder };

Rebuilt how_rebuilt(const SetValue& set, PyObject* real, bool is_unknown) {
    if (real == nullptr || is_unknown || static_cast<std::size_t>(PySet_GET_SIZE(real)) != set.table.size())
        return Rebuilt::InAnyOrder;
    Ref<> again = checked(set.is_frozen() ? PyFrozenSet_New(nullptr) : PySet_New(nullptr));
    for (const Table::Entry& entry : set.table.all()) {
        if (!entry.live) continue;
        if (entry.key->object() == nullptr) return Rebuilt::InAnyOrder;
        checked(PySet_Add(again.get(), entry.key->object()));
    }
    if (have_same_order(again.get(), real)) return Rebuilt::InOrder;
    bool is_plain = set.class_ == &PySet_Type || set.class_ == &PyFrozenSet_Type;
    Ref<> copy = checked(set.is_frozen() ? PyFrozenSet_New(real) : PySet_New(real));
    return is_plain && have_same_order(copy.get(), real) ? Rebuilt::AsCopy : Rebuilt::InAnyOrder;
}

}  // namespace

/// Through a dict, from which the new set copies keys and hashes.
int SetValue::rebuild_hashed(PlanBuilder& plan) {
    if (class_ != &PySet_Type && class_ != &PyFrozenSet_Type)
        throw Break{BreakKind::Rebuild,
                    "a " + type_name(class_) +
                        " whose elements have a user-defined __hash__ is still used after the captured region"};
    int dict = plan.add(PlanOp::Dict);
    for (Table::Entry* entry : table.entries()) rebuild_entry(plan, dict, *entry);
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Call, std::vector<std::int32_t>(1, dict), reinterpret_cast<PyObject*>(class_));
    return to;
}

int SetValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return rebuild_outside(plan, this);
    if (has_own_hashes(table)) return rebuild_hashed(plan);
    std::vector<std::int32_t> elements;
    for (Table::Entry* entry : table.entries()) elements.push_back(entry->key->rebuild(plan));
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    if (how_rebuilt(*this, real_, unknown_) == Rebuilt::AsCopy) {
        plan.add_to(to, PlanOp::Call, {plan.constant(real_)}, reinterpret_cast<PyObject*>(class_));
    } else if (class_ == &PySet_Type || class_ == &PyFrozenSet_Type) {
        plan.add_to(to, is_frozen() ? PlanOp::Frozenset : PlanOp::Set, std::move(elements));
    } else if (!is_frozen()) {
        plan.add_to(to, PlanOp::NewObject, {}, reinterpret_cast<PyObject*>(class_));
        for (std::int32_t element : elements) plan.add(PlanOp::Add, {to, element});
    } else {
        plan.add_to(to, PlanOp::Frozenset, std::move(elements), reinterpret_cast<PyObject*>(class_));
    }
    rebuild_attributes(plan, to, this);
    return to;
}

bool SetValue::keeps_order(const std::vector<Value*>&) const {
    return how_rebuilt(*this, real_, unknown_) != Rebuilt::InAnyOrder;
}

std::string SetValue::print() const {
    if (!realized) return source != nullptr ? stator::print(*source) : "{...}";
    std::string text;
    for (const Table::Entry& entry : table.all())
        if (entry.live) text += (text.empty() ? "" : ", ") + entry.key->print();
    if (class_ == &PySet_Type && !text.empty()) return "{" + text + "}";
    return type_name(class_) + "(" + (text.empty() ? "" : "{" + text + "}") + ")";
}

SetIterator::SetIterator(Tracer& tracer, SetValue* set)
    : IteratorValue(&PySetIter_Type), set(set), elements(set->in_order(tracer)) {}

Outcome SetIterator::next(Tracer& tracer) {
    if (set == nullptr) return tracer.exhausted();
    if (set->table.size() != elements.size()) tracer.raise(PyExc_RuntimeError, "Set changed size during iteration");
    if (position >= elements.size()) {
        tracer.on_undo([this, before = set] { set = before; });
        set = nullptr;
        return tracer.exhausted();
    }
    tracer.on_undo([this] { --position; });
    return elements[position++];
}

int SetIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (set == nullptr) return rebuild_iterator(plan, this, plan.add(PlanOp::Set), 0);
    // A new iterator would not detect that the set has changed.
    if (set->order_is_lost() || set->table.size() != elements.size()) return IteratorValue::rebuild(plan);
    int over = set->rebuild(plan);
    std::vector<std::int32_t> left;
    bool is_known = set->source != nullptr || set->keeps_order(elements);
    if (position > 0 && !is_known)
        for (std::size_t i = position; i < elements.size(); ++i) left.push_back(elements[i]->rebuild(plan));
    if (int known = plan.known(this); known >= 0) return known;
    // If the order differs, the first elements of the rebuilt set may not be those that were already returned: then the
    // iterator is over a set of the remaining elements.
    if (position > 0 && !is_known) return rebuild_iterator(plan, this, plan.add(PlanOp::Set, std::move(left)), 0);
    return rebuild_iterator(plan, this, over, position);
}

}  // namespace stator
