#include "value/kinds/dict.h"

#include <array>
#include <cstring>
#include <string_view>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/hashed_items.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "guard/constants.h"
#include "source/query.h"
#include "torch/tensor.h"
#include "value/effect_log.h"
#include "value/kinds/address.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/container_effects.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/nesting.h"
#include "value/protocol/attributes.h"
#include "value/protocol/identity.h"
#include "value/protocol/keys.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"
#include "value/recorder.h"

namespace stator {

namespace {

bool is_ordered(const DictValue* dict) {
    return PyType_IsSubtype(dict->class_, &PyODict_Type) != 0;
}

bool has_default_factory(const DictValue* dict) {
    return PyType_IsSubtype(dict->class_, default_dict_class()) != 0;
}

/// The keys of a real dict in iteration order.
Ref<> keys_in_order(PyObject* real) {
    // The order is in the linked list of an OrderedDict, not in its hash table.
    Ref<> iterator = checked(PyODict_Check(real) ? PyODict_Type.tp_iter(real) : PyDict_Type.tp_iter(real));
    return checked(PySequence_Tuple(iterator.get()));
}

/// Iterating over an OrderedDict looks up its keys, which would call a user-defined `__hash__`.
void refuse_hashed_order(Tracer& tracer, PyObject* dict) {
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value);) {
        PyObject* method = cpython::lookup_in_mro(Py_TYPE(key), interned("__hash__"));
        if (method != nullptr && PyFunction_Check(method) && PyType_HasFeature(Py_TYPE(key), Py_TPFLAGS_HEAPTYPE) &&
            !is_constant(key))
            tracer.break_graph(BreakKind::UnknownObject,
                               "the order of an OrderedDict whose keys have a user-defined __hash__ is read");
    }
}

bool holds_containers(PyObject* keys) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i)
        if (is_member_by_identity(PyTuple_GET_ITEM(keys, i))) return true;
    return false;
}

/// The value of a key that only a container references: a constant, or an object that the guard on the keys pins.
Value* key_value(Tracer& tracer, DictValue* dict, PyObject* key) {
    Value* value =
        is_member_by_identity(key) ? tracer.outside(tracer.provenance().pinned(key), key) : tracer.constant(key);
    tracer.realize(value);
    mark_as_member(value, dict, key);
    return value;
}

/// The object with which a key is looked up in a real dict; empty if the key was created in the trace and so can't be
/// in it.
Ref<> lookup_object(Tracer& tracer, Value* key) {
    if (key->kind == Kind::Constant || key->kind == Kind::Tuple) key->hash(tracer);
    if (Ref<> constant = key->as_constant(tracer)) return constant;
    const bool is_builtin = key->kind == Kind::Builtin && is_known_by_identity(key->object());
    if (key->kind != Kind::Tensor && !is_builtin && !compares_by_identity(key->type())) {
        key->hash(tracer);
        tracer.break_graph(BreakKind::UnknownObject, "a dict lookup with a key of class " + type_name(key->type()));
    }
    if (key->object() == nullptr) return nullptr;
    if (key->source != nullptr) tracer.guard({GuardKind::Identity, key->source, key->object()});
    return Ref<>::share(key->object());
}

/// Such as the getter of an attribute, which a `__torch_function__` gets as `func`: a new object at each read, equal to
/// others of the same descriptor.
bool is_method_wrapper(const Value* key) {
    return key->kind == Kind::Builtin && Py_TYPE(key->object()) == cpython::method_wrapper_class();
}

/// Guards that a dict from outside has no method wrapper among its keys.
void expect_no_method_wrapper(Tracer& tracer, const DictValue* dict) {
    PyObject* keys = tracer.keep(keys_in_order(dict->outside));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i)
        if (Py_TYPE(PyTuple_GET_ITEM(keys, i)) == cpython::method_wrapper_class())
            tracer.break_graph(BreakKind::UnknownObject, "a method wrapper is looked up in a dict that has such keys");
    tracer.guard({GuardKind::Keys, dict->source, keys, kByIdentity});
}

/// Whether a guard can check that a dict does not have this key.
bool can_be_missed(PyObject* key) {
    return is_constant_key(key) || is_known_by_identity(key) || torch_room::is_plain_tensor(key);
}

/// The key that a dict holds, given an equal key that was created for the lookup. A guard finds the held key by
/// identity.
PyObject* held_key(PyObject* dict, PyObject* wanted) {
    if (can_be_missed(wanted)) return wanted;
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value);)
        if (same_constant(key, wanted)) return key;
    return wanted;
}

/// Looks an item up without calling the key's `__hash__`.
PyObject* item_by_identity(PyObject* dict, PyObject* wanted) {
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value);)
        if (key == wanted) return value;
    return nullptr;
}

/// The hashes that a dict from outside has stored for its keys, where some of them have a user-defined `__hash__`: that
/// is not called, and may give another result by now. Guards them.
class StoredHashes {
  public:
    StoredHashes(Tracer& tracer, const DictValue* dict) : tracer_(tracer), dict_(dict) {}

    Py_hash_t at(Py_ssize_t position) {
        if (!hashes_) read();
        Py_hash_t hash = 0;
        const char* place = PyBytes_AS_STRING(hashes_.get()) + position * static_cast<Py_ssize_t>(sizeof(hash));
        std::memcpy(&hash, place, sizeof(hash));
        return hash;
    }

  private:
    void read() {
        tracer_.guard({GuardKind::Identity, dict_->source, dict_->outside});
        Answer answer = ask(tracer_.provenance(), cpython::stored_hashes_function(), dict_->outside);
        const Py_ssize_t size = PyDict_GET_SIZE(dict_->outside) * static_cast<Py_ssize_t>(sizeof(Py_hash_t));
        const bool is_read = answer.object && PyBytes_Check(answer.object.get());
        if (!is_read || PyBytes_GET_SIZE(answer.object.get()) != size)
            tracer_.break_graph(BreakKind::UnknownObject, "a dict whose stored hashes are not known");
        hashes_ = std::move(answer.object);
        tracer_.guard({GuardKind::Constant, answer.source, tracer_.keep(Ref<>(hashes_))});
    }

    Tracer& tracer_;
    const DictValue* dict_;
    Ref<> hashes_;
};

Task make_missing(Tracer& tracer, DictValue* dict, Value* factory, Value* key) {
    Value* made = co_await operations::call(tracer, factory, Arguments::of());
    co_await operations::set_item(tracer, dict, key, made);
    co_return made;
}

/// Empties the table of a dict; returns the old one.
Table* start_anew(Tracer& tracer, DictValue* dict) {
    auto* before = tracer.make<Table>(Table::ChangingInts::Kept);
    std::swap(*before, dict->table);
    tracer.on_undo([dict, before] { std::swap(*before, dict->table); });
    return before;
}

Task compare_dicts(Tracer& tracer, DictValue* left, DictValue* right, bool ordered, bool wanted) {
    std::vector<Table::Entry*> entries = left->entries(tracer);
    for (Table::Entry* entry : entries) {
        Value* other = right->find(tracer, entry->key);
        if (other == nullptr) co_return tracer.boolean(!wanted);
        Value* equal = co_await same_or_equal(tracer, left->value_of(tracer, entry), other);
        if (!is_true(equal)) co_return tracer.boolean(!wanted);
    }
    if (ordered) {
        std::vector<Table::Entry*> others = right->entries(tracer);
        for (std::size_t i = 0; i < entries.size() && i < others.size(); ++i)
            if (!equal_keys(tracer, entries[i]->key, others[i]->key)) co_return tracer.boolean(!wanted);
    }
    co_return tracer.boolean(wanted);
}

Task update_then_self(Tracer& tracer, DictValue* dict, Value* other) {
    co_await update_dict(tracer, dict, other);
    co_return dict;
}

}  // namespace

PyTypeObject* default_dict_class() {
    static PyTypeObject* const type = imported_class("collections", "defaultdict");
    return type;
}

void DictValue::realize(Tracer& tracer) {
    tracer.guard({GuardKind::Type, source, reinterpret_cast<PyObject*>(class_)});
}

namespace {

/// Whether a dict has the hooks of a module, or of all: each under a number that no other hook of the process has. What
/// is captured for one module serves others that have equal hooks under other numbers.
bool holds_hooks(const DictValue* dict) {
    constexpr Py_ssize_t kFew = 8;
    const Source* place = dict->source;
    const bool is_attribute = place != nullptr && place->access == Access::DictItem && place->parent != nullptr &&
                              place->parent->access == Access::InstanceDict && place->key != nullptr &&
                              PyUnicode_CheckExact(place->key);
    if (!is_attribute || !(dict->class_ == &PyDict_Type || dict->class_ == &PyODict_Type)) return false;
    constexpr std::array<std::string_view, 4> kNames = {"_forward_hooks", "_forward_pre_hooks",
                                                        "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs"};
    if (std::ranges::find(kNames, utf8(place->key)) == kNames.end()) return false;
    const Py_ssize_t size = PyDict_GET_SIZE(dict->outside);
    if (size == 0 || size > kFew) return false;
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(dict->outside, &position, &key, &value);)
        if (!PyLong_CheckExact(key)) return false;
    return true;
}

}  // namespace

/// Entries by their positions: the keys are ints that change.
void DictValue::complete_by_positions(Tracer& tracer) {
    const Py_ssize_t size = PyDict_GET_SIZE(outside);
    tracer.guard({GuardKind::Length, source, nullptr, size});
    set_undoably(tracer, complete, true);
    for (int i = 0; i < size; ++i) {
        auto entry = [&](int number) {
            PyObject* object = cpython::entry_of(outside, number);
            STATOR_CHECK(object != nullptr, "a dict of hooks lost one while it was traced");
            return tracer.outside(tracer.provenance().child(source, Access::Entry, nullptr, number, object), object);
        };
        Value* key = entry(2 * i);
        table.insert(tracer, key, entry(2 * i + 1));
    }
}

void DictValue::complete_now(Tracer& tracer) {
    tracer.realize(this);
    if (complete) return;
    if (!changed && holds_hooks(this)) return complete_by_positions(tracer);
    if (is_ordered(this)) refuse_hashed_order(tracer, outside);
    PyObject* keys = tracer.keep(keys_in_order(outside));
    tracer.guard({GuardKind::Keys, source, keys, holds_containers(keys) ? kByIdentity : 0});
    set_undoably(tracer, complete, true);
    Table* overlay = start_anew(tracer, this);
    StoredHashes hashes(tracer, this);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
        Value* key = key_value(tracer, this, PyTuple_GET_ITEM(keys, i));
        if (changed && removed.find(tracer, key) != nullptr) continue;
        Table::Entry* put_there = changed ? overlay->find(tracer, key) : nullptr;
        Value* value = put_there == nullptr ? nullptr : put_there->value;
        if (has_own_hash(key))
            table.insert(tracer, Table::Entry{key, nullptr, hashes.at(i)}, value);
        else
            table.insert(tracer, key, value);
    }
    if (!changed) return;
    // Keys that are new, or were removed and inserted again, come last.
    for (Table::Entry* entry : overlay->entries())
        if (table.find(tracer, entry->key) == nullptr) table.insert(tracer, entry->key, entry->value);
}

std::optional<Value*> DictValue::overlaid(Tracer& tracer, Value* key) {
    if (!changed) return std::nullopt;
    if (Table::Entry* entry = table.find(tracer, key)) {
        // Copied with all other keys, and not read yet.
        if (entry->value == nullptr) return std::nullopt;
        return entry->value;
    }
    if (complete || removed.find(tracer, key) != nullptr) return nullptr;
    return std::nullopt;
}

Value* DictValue::find(Tracer& tracer, Borrowed<> key) {
    tracer.realize(this);
    if (complete) {
        Table::Entry* entry = table.find(tracer, tracer.constant(key));
        return entry == nullptr ? nullptr : value_of(tracer, entry);
    }
    if (changed)
        if (auto known = overlaid(tracer, tracer.constant(key))) return *known;
    PyObject* found = PyDict_GetItemWithError(outside, key);
    if (found == nullptr && PyErr_Occurred()) tracer.raise_from_python();
    if (found == nullptr && !can_be_missed(key)) {
        complete_now(tracer);
        return nullptr;
    }
    if (found != nullptr) key = held_key(outside, key);
    bool is_new = false;
    Source* child = tracer.provenance().child(source, Access::DictItem, key, 0, found, &is_new);
    if (is_new) {
        tracer.keep(Ref<>::share(key.get()));
        if (found == nullptr)
            tracer.guard({GuardKind::HasNoKey, source, key});
        else
            tracer.guard({GuardKind::Present, child});
    }
    return found == nullptr ? nullptr : tracer.outside(child, found);
}

namespace {

/// A lookup of an int that changes between calls, or of an address, compares it with all keys: with those of a dict
/// from outside, if these are few.
void settle_key(Tracer& tracer, DictValue* dict, Value* key) {
    constexpr Py_ssize_t kFew = 8;
    if (as_address(key) != nullptr) return dict->complete_now(tracer);
    if (!is_changing_int(key)) return tracer.realize(key);
    if (dict->complete) return;
    if (PyDict_GET_SIZE(dict->outside) > kFew) return tracer.realize(key);
    dict->complete_now(tracer);
}

}  // namespace

Value* DictValue::find(Tracer& tracer, Value* key) {
    tracer.realize(this);
    settle_key(tracer, this, key);
    if (is_method_wrapper(key) && outside != nullptr && source != nullptr && !changed) {
        expect_no_method_wrapper(tracer, this);
        return nullptr;
    }
    if (complete) {
        Table::Entry* entry = table.find(tracer, key);
        return entry == nullptr ? nullptr : value_of(tracer, entry);
    }
    if (changed)
        if (auto known = overlaid(tracer, key)) return *known;
    Ref<> wanted = lookup_object(tracer, key);
    if (!wanted) return nullptr;
    return find(tracer, tracer.keep(std::move(wanted)));
}

Value* DictValue::value_of(Tracer& tracer, Table::Entry* entry) {
    if (entry->value != nullptr) return entry->value;
    Ref<> constant = entry->key->as_constant(tracer);
    PyObject* key = constant && constant.get() != entry->key->object() ? tracer.keep(constant) : entry->key->object();
    if (key == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "a dict that existed before the call has the key " + entry->key->print());
    PyObject* found = has_own_hash(entry->key) ? item_by_identity(outside, key) : PyDict_GetItemWithError(outside, key);
    STATOR_CHECK(found != nullptr, "a dict lost a key while it was traced");
    key = held_key(outside, key);
    Source* child = tracer.provenance().child(source, Access::DictItem, key, 0, found);
    entry->value = tracer.outside(child, found);
    tracer.on_undo([entry] { entry->value = nullptr; });
    return entry->value;
}

std::vector<Table::Entry*> DictValue::entries(Tracer& tracer) {
    complete_now(tracer);
    std::vector<Table::Entry*> live = table.entries();
    for (Table::Entry* entry : live) value_of(tracer, entry);
    return live;
}

void DictValue::insert(Tracer& tracer, Value* key, Value* value) {
    tracer.realize(this);
    if (source != nullptr) settle_key(tracer, this, key);
    put(tracer, key, value);
    if (source != nullptr) tracer.effects().log({PlanOp::SetItem, {this, key, value}});
}

void DictValue::put(Tracer& tracer, Value* key, Value* value) {
    if (source != nullptr && !changed) set_undoably(tracer, changed, true);
    table.insert(tracer, key, value);
}

Value* DictValue::remove(Tracer& tracer, Value* key) {
    Value* value = take(tracer, key);
    if (value != nullptr && source != nullptr) tracer.effects().log({PlanOp::SetItem, {this, key, nullptr}});
    return value;
}

Value* DictValue::take(Tracer& tracer, Value* key) {
    Value* value = find(tracer, key);
    if (value == nullptr) return nullptr;
    if (source != nullptr && !changed) set_undoably(tracer, changed, true);
    if (!complete && removed.find(tracer, key) == nullptr) removed.insert(tracer, key, tracer.none());
    table.erase(tracer, key);
    return value;
}

void DictValue::move(Tracer& tracer, Value* key, bool to_end) {
    complete_now(tracer);
    if (source != nullptr) {
        tracer.effects().log(method_effect(&PyODict_Type, "move_to_end", {this, key, tracer.boolean(to_end)}));
        if (!changed) set_undoably(tracer, changed, true);
    }
    Table::Entry* entry = table.find(tracer, key);
    Value *held = entry->key, *value = value_of(tracer, entry);
    if (to_end) {
        table.erase(tracer, entry);
        table.insert(tracer, held, value);
    } else {
        table.move_to_front(tracer, entry);
    }
}

void DictValue::clear(Tracer& tracer) {
    tracer.realize(this);
    if (source == nullptr) return table.clear(tracer);
    bool is_ordered_dict = is_ordered(this);
    tracer.effects().log(method_effect(is_ordered_dict ? &PyODict_Type : &PyDict_Type, "clear", {this}));
    set_undoably(tracer, changed, true);
    if (complete) return table.clear(tracer);
    // Whatever its keys were, it is empty now.
    set_undoably(tracer, complete, true);
    start_anew(tracer, this);
}

Ref<> DictValue::as_constant(Tracer& tracer) {
    if (class_ != &PyDict_Type || Nesting::is_endless(this)) return nullptr;
    Nesting nesting(this);
    Ref<> made = checked(PyDict_New());
    for (Table::Entry* entry : entries(tracer)) {
        tracer.realize(entry->value);
        if (entry->value->kind == Kind::Constant && runs_program_code(entry->value->object())) return nullptr;
        Ref<> key = entry->key->as_constant(tracer), value = key ? entry->value->as_constant(tracer) : Ref<>();
        if (!key || !value) return nullptr;
        checked(PyDict_SetItem(made.get(), key.get(), value.get()));
    }
    return made;
}

Outcome DictValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (source == nullptr && name.get() == interned("default_factory") && has_default_factory(this))
        return default_factory != nullptr ? default_factory : tracer.none();
    return ObjectValue::get_attribute(tracer, name);
}

void DictValue::set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    if (source == nullptr && name.get() == interned("default_factory") && has_default_factory(this)) {
        tracer.on_undo([this, before = default_factory] { default_factory = before; });
        default_factory = value;
        return;
    }
    ObjectValue::set_own_attribute(tracer, name, value);
}

Outcome DictValue::get_item(Tracer& tracer, Value* key) {
    if (Value* found = find(tracer, key)) return found;
    if (class_ != &PyDict_Type) {
        if (Value* missing = operations::user_method(tracer, this, "__missing__"))
            return operations::call(tracer, missing, Arguments::of(this, key));
        if (has_default_factory(this)) {
            Value* factory = get_attribute(tracer, interned("default_factory")).value();
            if (factory->object() != Py_None) return tracer.start(make_missing(tracer, this, factory, key));
        }
    }
    raise_key_error(tracer, key);
}

void DictValue::set_item(Tracer& tracer, Value* key, Value* value) {
    insert(tracer, key, value);
}

void DictValue::delete_item(Tracer& tracer, Value* key) {
    if (remove(tracer, key) == nullptr) raise_key_error(tracer, key);
}

Outcome DictValue::contains(Tracer& tracer, Value* item) {
    return tracer.boolean(find(tracer, item) != nullptr);
}

std::ptrdiff_t DictValue::length(Tracer& tracer) {
    tracer.realize(this);
    if (!complete && !changed && source != nullptr) {
        const Py_ssize_t size = PyDict_GET_SIZE(outside);
        tracer.guard({GuardKind::Length, source, nullptr, size});
        return size;
    }
    complete_now(tracer);
    return static_cast<std::ptrdiff_t>(table.size());
}

bool DictValue::truth(Tracer& tracer) {
    return length(tracer) != 0;
}

Outcome DictValue::iterate(Tracer& tracer) {
    return tracer.make<DictIterator>(tracer, this, DictViewValue::What::Keys, false);
}

namespace {

/// The operand whose class the result of `left | right` has, where the operator of `self` computes it; null for a
/// plain dict. Subclasses written in C have their own operator. The one on the right goes first if its class is a
/// subclass of the class on the left.
DictValue* operand_with_class_of_result(DictValue* self, DictValue* left, DictValue* right) {
    auto has_own = [](DictValue* dict) { return is_ordered(dict) || has_default_factory(dict); };
    if (has_own(self)) return is_ordered(left) == is_ordered(self) && has_own(left) ? left : right;
    bool goes_first = self == left && PyType_IsSubtype(right->class_, left->class_) != 0;
    return goes_first && has_own(right) ? right : nullptr;
}

/// `|` creates the new instance by calling the class and fills it through its methods.
void expect_no_methods_of_its_own(Tracer& tracer, DictValue* dict) {
    for (const char* name : {"__new__", "__init__", "__setitem__", "update", "keys", "__iter__", "__getitem__"})
        if (operations::user_method(tracer, dict, name) != nullptr)
            tracer.break_graph(BreakKind::UnknownObject,
                               std::string("'|' of ") + dict->class_->tp_name + ", whose class defines " + name + "");
}

}  // namespace

Value* DictValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    auto* dict = cast<DictValue>(other);
    if (op != BinaryOperator::Or || dict == nullptr) return nullptr;
    DictValue* left = reflected ? dict : this;
    DictValue* right = reflected ? this : dict;
    DictValue* model = operand_with_class_of_result(this, left, right);
    if (model != nullptr) expect_no_methods_of_its_own(tracer, model);
    DictValue* merged = copy_dict(tracer, left, model == nullptr ? &PyDict_Type : model->class_);
    if (model != nullptr && has_default_factory(model))
        merged->default_factory = model->get_attribute(tracer, interned("default_factory")).value();
    merge_dict(tracer, merged, right);
    return merged;
}

Value* DictValue::in_place(Tracer& tracer, BinaryOperator op, Value* other) {
    auto* dict = cast<DictValue>(other);
    if (op != BinaryOperator::Or || dict == nullptr || sets_by_method(tracer, this)) return nullptr;
    merge_dict(tracer, this, dict);
    return this;
}

Outcome DictValue::update(Tracer& tracer, BinaryOperator op, Value* other) {
    if (op != BinaryOperator::Or) return nullptr;
    if (Value* done = in_place(tracer, op, other)) return done;
    return tracer.start(update_then_self(tracer, this, other));
}

Outcome DictValue::compare(Tracer& tracer, Comparison op, Value* other) {
    if (op != Comparison::Equal && op != Comparison::NotEqual) return nullptr;
    tracer.realize(other);
    auto* dict = cast<DictValue>(other);
    if (dict == nullptr) return nullptr;
    bool wanted = op == Comparison::Equal;
    if (length(tracer) != dict->length(tracer)) return tracer.boolean(!wanted);
    return tracer.start(compare_dicts(tracer, this, dict, is_ordered(this) && is_ordered(dict), wanted));
}

Py_hash_t DictValue::hash(Tracer& tracer) {
    if (operations::user_method(tracer, this, "__hash__") != nullptr || class_->tp_hash == PyBaseObject_Type.tp_hash)
        return ObjectValue::hash(tracer);
    raise_type_error(tracer, "unhashable type: ", this, "");
}

graph::Argument DictValue::as_argument(Tracer& tracer) {
    auto* items = tracer.recorder().graph_arena().make<graph::Argument::Items>();
    for (Table::Entry* entry : entries(tracer)) {
        Ref<> key = entry->key->as_constant(tracer);
        if (!key)
            tracer.break_graph(BreakKind::UnknownObject,
                               "a dict with keys that are not constants is an argument of a tensor operation");
        items->keys.push_back(tracer.keep(std::move(key)));
        tracer.realize(entry->value);
        items->values.push_back(entry->value->as_argument(tracer));
    }
    if (class_ != &PyDict_Type) items->type = class_;
    return graph::Argument::of_items(graph::Argument::Kind::Dict, items);
}

int DictValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return rebuild_outside(plan, this);
    if (owner != nullptr) {
        int object = owner->rebuild(plan);
        return rebuild_own_dict(plan, object, this);
    }
    std::vector<Value*> parts;
    for (Table::Entry* entry : table.entries()) {
        parts.push_back(entry->key);
        parts.push_back(entry->value);
    }
    bool are_hashed = has_own_hashes(table);
    if (are_hashed && is_ordered(this))
        throw Break{BreakKind::Rebuild,
                    "an OrderedDict whose keys have a user-defined __hash__ is still used after the captured region"};
    if (class_ == &PyDict_Type && !are_hashed && all_leaves(parts)) {
        std::vector<std::int32_t> from;
        from.reserve(parts.size());
        for (Value* part : parts) from.push_back(part->rebuild(plan));
        int to = plan.reserve(this);
        plan.add_to(to, PlanOp::Dict, std::move(from));
        return to;
    }
    int to = plan.reserve(this);
    Filling filling(plan, this);
    if (class_ == &PyDict_Type) {
        plan.add_to(to, PlanOp::Dict);
    } else if (class_ == default_dict_class()) {
        plan.add_to(to, PlanOp::Call, {}, reinterpret_cast<PyObject*>(class_));
        if (default_factory != nullptr)
            plan.add(PlanOp::SetAttribute, {to, default_factory->rebuild(plan)}, interned("default_factory"));
    } else {
        plan.add_to(to, PlanOp::NewObject, {}, reinterpret_cast<PyObject*>(class_));
        if (default_factory != nullptr)
            plan.add(PlanOp::SetAttribute, {to, default_factory->rebuild(plan)}, interned("default_factory"));
    }
    for (Table::Entry* entry : table.entries()) rebuild_entry(plan, to, *entry);
    rebuild_attributes(plan, to, this);
    return to;
}

std::string DictValue::print() const {
    std::string name = class_ == &PyDict_Type ? "" : type_name(class_);
    if (!complete) return source != nullptr ? stator::print(*source) : name + "{...}";
    if (Nesting::depth() > 3) return name + "{...}";
    Nesting nesting(this);
    std::string text;
    for (const Table::Entry& entry : table.all()) {
        if (!entry.live) continue;
        if (!text.empty()) text += ", ";
        text += entry.key->print() + ": " + (entry.value == nullptr ? "?" : entry.value->print());
    }
    return name + "{" + text + "}";
}

DictValue* changed_dict(Tracer& tracer, Borrowed<> real) {
    if (tracer.effects().empty()) return nullptr;
    auto* dict = cast<DictValue>(tracer.known(real));
    return dict != nullptr && dict->changed ? dict : nullptr;
}

namespace {

/// C code copies a dict through its hash table, unless its class defines `__iter__`.
void refuse_own_iteration(Tracer& tracer, DictValue* dict) {
    if (dict->class_ != &PyDict_Type && operations::user_method(tracer, dict, "__iter__") != nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "copy of a " + type_name(dict->class_) + ", whose class defines __iter__");
}

}  // namespace

DictValue* copy_dict(Tracer& tracer, DictValue* dict, PyTypeObject* type) {
    refuse_own_iteration(tracer, dict);
    auto* copy = tracer.make<DictValue>(type);
    for (Table::Entry* entry : dict->entries(tracer)) copy->table.insert(tracer, *entry, entry->value);
    return copy;
}

void merge_dict(Tracer& tracer, DictValue* target, DictValue* other) {
    refuse_own_iteration(tracer, other);
    for (Table::Entry* entry : other->entries(tracer)) target->insert(tracer, entry->key, entry->value);
}

}  // namespace stator
