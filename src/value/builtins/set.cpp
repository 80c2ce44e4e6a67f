/// `set` and `frozenset`: constructors and methods.
#include "value/kinds/set.h"
#include "value/builtins/registry.h"
#include "value/effect_log.h"
#include "value/kinds/class.h"
#include "value/kinds/sequence.h"
#include "value/protocol/calling.h"
#include "value/protocol/identity.h"
#include "value/protocol/keys.h"
#include "value/protocol/raising.h"

namespace stator {

namespace {

SetValue* set_receiver(Tracer& tracer, const Arguments& arguments, const char* method, std::size_t least,
                       std::size_t most) {
    auto* self = arguments.positional.empty() ? nullptr : cast<SetValue>(arguments.positional[0]);
    bool frozen = self != nullptr && self->is_frozen();
    return receiver<SetValue>(tracer, arguments, frozen ? &PyFrozenSet_Type : &PySet_Type, method, least, most);
}

/// A set itself, or a list of the items of any other iterable.
Task as_operand(Tracer& tracer, Value* iterable) {
    tracer.realize(iterable);
    if (iterable->kind == Kind::Set && operations::user_method(tracer, iterable, "__iter__") == nullptr)
        co_return iterable;
    Value* collected = co_await operations::collect_elements(tracer, iterable);
    for (Value* element : as_sequence(collected)->items) refuse_own_hash(tracer, element);
    co_return collected;
}

Task fill(Tracer& tracer, SetValue* set, Value* iterable, Value* result) {
    Value* operand = co_await tracer.start(as_operand(tracer, iterable));
    if (auto* other = cast<SetValue>(operand)) {
        if (PyObject* real = other->real(tracer); real != nullptr && set->table.size() == 0) {
            Ref<> copy = Ref<>::steal(set->is_frozen() ? PyFrozenSet_New(real) : PySet_New(real));
            set->take_over(tracer, std::move(copy), other);
            co_return result;
        }
        for (Value* element : other->in_order(tracer)) set->table.insert(tracer, element, nullptr);
        co_return result;
    }
    for (Value* element : as_sequence(operand)->all(tracer)) set->table.insert(tracer, element, nullptr);
    co_return result;
}

Outcome make_set_of(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "set", arguments, 0, 1);
    auto* set = tracer.make<SetValue>();
    if (arguments.positional.empty()) return set;
    return tracer.start(fill(tracer, set, arguments.positional[0], set));
}

Outcome make_frozenset_of(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "frozenset", arguments, 0, 1);
    auto* set = tracer.make<SetValue>(&PyFrozenSet_Type);
    if (arguments.positional.empty()) return set;
    tracer.realize(arguments.positional[0]);
    if (auto* same = cast<SetValue>(arguments.positional[0]); same != nullptr && same->class_ == &PyFrozenSet_Type)
        return same;
    return tracer.start(fill(tracer, set, arguments.positional[0], set));
}

Outcome new_frozenset(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr || arguments.positional.size() > 2 || !arguments.keywords.empty())
        tracer.break_graph(BreakKind::UnknownFunction,
                           "frozenset.__new__ is called with arguments that Stator has no model of");
    auto* set = tracer.make<SetValue>(type->held);
    if (arguments.positional.size() == 1) return set;
    return tracer.start(fill(tracer, set, arguments.positional[1], set));
}

Outcome set_init(Tracer& tracer, const Arguments& arguments) {
    auto* self = set_receiver(tracer, arguments, "__init__", 0, 1);
    self->clear(tracer);
    if (arguments.positional.size() == 1) return tracer.none();
    tracer.effects().expect_made_in_trace(self);
    return tracer.start(fill(tracer, self, arguments.positional[1], tracer.none()));
}

// --- elements
// ----------------------------------------------------------------------------------------------------------

Outcome set_add(Tracer& tracer, const Arguments& arguments) {
    set_receiver(tracer, arguments, "add", 1, 1)->add(tracer, arguments.positional[1]);
    return tracer.none();
}

Value* element_to_find(Tracer& tracer, Value* element) {
    tracer.realize(element);
    auto* set = cast<SetValue>(element);
    if (set == nullptr || set->is_frozen()) return element;
    return make_set(tracer, set->in_order(tracer), &PyFrozenSet_Type);
}

Outcome set_discard(Tracer& tracer, const Arguments& arguments) {
    auto* self = set_receiver(tracer, arguments, "discard", 1, 1);
    self->discard(tracer, element_to_find(tracer, arguments.positional[1]));
    return tracer.none();
}

Outcome set_remove(Tracer& tracer, const Arguments& arguments) {
    auto* self = set_receiver(tracer, arguments, "remove", 1, 1);
    if (!self->discard(tracer, element_to_find(tracer, arguments.positional[1])))
        raise_key_error(tracer, arguments.positional[1]);
    return tracer.none();
}

Outcome set_pop(Tracer& tracer, const Arguments& arguments) {
    auto* self = set_receiver(tracer, arguments, "pop", 0, 0);
    if (Value* element = self->pop(tracer)) return element;
    tracer.raise(PyExc_KeyError, "pop from an empty set");
}

Outcome set_clear(Tracer& tracer, const Arguments& arguments) {
    set_receiver(tracer, arguments, "clear", 0, 0)->clear(tracer);
    return tracer.none();
}

Outcome set_copy(Tracer& tracer, const Arguments& arguments) {
    auto* self = set_receiver(tracer, arguments, "copy", 0, 0);
    if (self->class_ == &PyFrozenSet_Type) return self;
    auto* copy = tracer.make<SetValue>(self->is_frozen() ? &PyFrozenSet_Type : &PySet_Type);
    return tracer.start(fill(tracer, copy, self, copy));
}

// --- whole sets
// --------------------------------------------------------------------------------------------------------

Task combine_with(Tracer& tracer, const char* name, SetValue* self, std::vector<Value*> others) {
    PyTypeObject* type = self->is_frozen() ? &PyFrozenSet_Type : &PySet_Type;
    SetValue* result = nullptr;
    if (others.empty()) {
        result = tracer.make<SetValue>(type);
        co_return co_await tracer.start(fill(tracer, result, self, result));
    }
    result = self;
    for (std::size_t i = 0; i < others.size(); ++i) {
        Value* operand = co_await tracer.start(as_operand(tracer, others[i]));
        result = combine_sets(tracer, name, result, operand);
    }
    co_return result;
}

Task update_with(Tracer& tracer, const char* name, SetValue* self, std::vector<Value*> others) {
    for (std::size_t i = 0; i < others.size(); ++i) {
        Value* operand = co_await tracer.start(as_operand(tracer, others[i]));
        if (operand == self) operand = co_await operations::collect(tracer, operand);
        update_set(tracer, name, self, operand);
    }
    co_return tracer.none();
}

std::vector<Value*> rest_of(const Arguments& arguments) {
    return {arguments.positional.begin() + 1, arguments.positional.end()};
}

enum class Operation { Union, Intersection, Difference, SymmetricDifference };
constexpr const char* kNames[] = {"union", "intersection", "difference", "symmetric_difference"};
constexpr const char* kUpdateNames[] = {"update", "intersection_update", "difference_update",
                                        "symmetric_difference_update"};

template <Operation operation>
Outcome combine(Tracer& tracer, const Arguments& arguments) {
    constexpr const char* kName = kNames[static_cast<int>(operation)];
    constexpr bool kOne = operation == Operation::SymmetricDifference;
    auto* self = set_receiver(tracer, arguments, kName, kOne ? 1 : 0, kOne ? 1 : 1000000);
    return tracer.start(combine_with(tracer, kName, self, rest_of(arguments)));
}

template <Operation operation>
Outcome update(Tracer& tracer, const Arguments& arguments) {
    constexpr bool kOne = operation == Operation::SymmetricDifference;
    auto* self =
        set_receiver(tracer, arguments, kUpdateNames[static_cast<int>(operation)], kOne ? 1 : 0, kOne ? 1 : 1000000);
    return tracer.start(update_with(tracer, kNames[static_cast<int>(operation)], self, rest_of(arguments)));
}

enum class Relation { Subset, Superset, Disjoint };

/// An iterable that is not a set is consumed only as far as the result requires.
Task related_to_iterable(Tracer& tracer, Relation relation, SetValue* self, Value* iterable) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    while (true) {
        Value* item = co_await operations::next(tracer, iterator);
        if (item == tracer.exhausted()) co_return tracer.boolean(true);
        tracer.realize(item);
        refuse_own_hash(tracer, item);
        item->hash(tracer);
        bool is_in = self->table.find(tracer, item) != nullptr;
        if (is_in == (relation == Relation::Disjoint)) co_return tracer.boolean(false);
    }
}

Task related(Tracer& tracer, Relation relation, SetValue* self, Value* iterable) {
    if (relation != Relation::Subset && cast<SetValue>(iterable) == nullptr)
        co_return co_await tracer.start(related_to_iterable(tracer, relation, self, iterable));
    // How far it is consumed depends on the Python version.
    if (cast<SetValue>(iterable) == nullptr && as_sequence(iterable) == nullptr && iterable->kind != Kind::Dict &&
        is_iterable(iterable))
        tracer.break_graph(BreakKind::UnknownFunction, "issubset() with an iterator");
    Value* operand = co_await tracer.start(as_operand(tracer, iterable));
    SetValue* other = cast<SetValue>(operand);
    if (other == nullptr) other = make_set(tracer, as_sequence(operand)->all(tracer));
    if (relation == Relation::Subset) co_return tracer.boolean(is_subset(tracer, self, other));
    if (relation == Relation::Superset) co_return tracer.boolean(is_subset(tracer, other, self));
    for (Table::Entry* entry : other->table.entries())
        if (self->table.find(tracer, entry->key) != nullptr) co_return tracer.boolean(false);
    co_return tracer.boolean(true);
}

template <Relation relation>
Outcome compare_with(Tracer& tracer, const Arguments& arguments) {
    constexpr const char* kMethods[] = {"issubset", "issuperset", "isdisjoint"};
    auto* self = set_receiver(tracer, arguments, kMethods[static_cast<int>(relation)], 1, 1);
    return tracer.start(related(tracer, relation, self, arguments.positional[1]));
}

}  // namespace

void register_sets(Handlers& handlers) {
    handlers.add(reinterpret_cast<PyObject*>(&PySet_Type), make_set_of);
    handlers.add(reinterpret_cast<PyObject*>(&PyFrozenSet_Type), make_frozenset_of);
    handlers.add_method(&PyFrozenSet_Type, "__new__", new_frozenset);
    handlers.add_method(&PySet_Type, "__init__", set_init);
    handlers.add_method(&PySet_Type, "add", set_add);
    handlers.add_method(&PySet_Type, "discard", set_discard);
    handlers.add_method(&PySet_Type, "remove", set_remove);
    handlers.add_method(&PySet_Type, "pop", set_pop);
    handlers.add_method(&PySet_Type, "clear", set_clear);
    handlers.add_method(&PySet_Type, "update", update<Operation::Union>);
    handlers.add_method(&PySet_Type, "intersection_update", update<Operation::Intersection>);
    handlers.add_method(&PySet_Type, "difference_update", update<Operation::Difference>);
    handlers.add_method(&PySet_Type, "symmetric_difference_update", update<Operation::SymmetricDifference>);
    for (PyTypeObject* type : {&PySet_Type, &PyFrozenSet_Type}) {
        handlers.add_method(type, "copy", set_copy);
        handlers.add_method(type, "union", combine<Operation::Union>);
        handlers.add_method(type, "intersection", combine<Operation::Intersection>);
        handlers.add_method(type, "difference", combine<Operation::Difference>);
        handlers.add_method(type, "symmetric_difference", combine<Operation::SymmetricDifference>);
        handlers.add_method(type, "issubset", compare_with<Relation::Subset>);
        handlers.add_method(type, "issuperset", compare_with<Relation::Superset>);
        handlers.add_method(type, "isdisjoint", compare_with<Relation::Disjoint>);
    }
}

}  // namespace stator
