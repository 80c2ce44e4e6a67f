#include "value/kinds/rebuilding.h"

#include <algorithm>
#include <unordered_set>

#include "base/names.h"
#include "base/python_error.h"
#include "effect/iterable_of.h"
#include "value/break.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"
#include "value/protocol/keys.h"

namespace stator {

bool is_leaf(const Value* value) {
    switch (value->kind) {
        case Kind::Constant:
        case Kind::Tensor:
        case Kind::Array:
        case Kind::Builtin:
        case Kind::Class:
        case Kind::PythonModule:
            return true;
        case Kind::Tuple: {
            auto* tuple = static_cast<const TupleValue*>(value);
            return tuple->source != nullptr ||
                   (tuple->attributes.empty() && tuple->own_dict == nullptr && all_leaves(tuple->items));
        }
        default:
            return value->source != nullptr;
    }
}

bool all_leaves(const std::vector<Value*>& values) {
    return std::ranges::all_of(values, [](const Value* value) { return is_leaf(value); });
}

int rebuild_outside(PlanBuilder& plan, Value* value) {
    if (value->source->access == Access::Pinned) return plan.constant(value->source->object);
    return plan.fetch(value->source);
}

int rebuild_identical(PlanBuilder& plan, Value* value, PyObject* object) {
    return value->source != nullptr && !value->realized ? rebuild_outside(plan, value) : plan.constant(object);
}

int rebuild_own_dict(PlanBuilder& plan, int to, DictValue* dict) {
    if (int known = plan.known(dict); known >= 0) return known;
    static PyObject* const get_dict = [] {
        Ref<> module = checked(PyImport_ImportModule("operator"));
        return checked(PyObject_CallMethod(module.get(), "attrgetter", "s", "__dict__")).release();
    }();
    int place = plan.reserve(dict);
    plan.add_to(place, PlanOp::Call, {to}, get_dict);
    return place;
}

void rebuild_attributes(PlanBuilder& plan, int to, ObjectValue* object) {
    for (auto& [name, value] : object->attributes)
        if (value != nullptr) plan.add(PlanOp::SetAttribute, {to, value->rebuild(plan)}, name);
    rebuild_own_dict_entries(plan, to, object);
}

void rebuild_own_dict_entries(PlanBuilder& plan, int to, ObjectValue* object) {
    if (object->own_dict == nullptr) return;
    if (object->own_dict->owner != object) {
        // The program has assigned another dict.
        plan.add(PlanOp::SetAttribute, {to, object->own_dict->rebuild(plan)}, interned("__dict__"));
        return;
    }
    int dict = rebuild_own_dict(plan, to, object->own_dict);
    for (Table::Entry* entry : object->own_dict->table.entries()) {
        int key = entry->key->rebuild(plan), value = entry->value->rebuild(plan);
        plan.add(PlanOp::SetItem, {dict, key, value});
    }
}

void rebuild_entry(PlanBuilder& plan, int to, const Table::Entry& entry) {
    int key = entry.key->rebuild(plan);
    int value = entry.value == nullptr ? plan.constant(Py_None) : entry.value->rebuild(plan);
    Ref<> hash = has_own_hash(entry.key) ? checked(PyLong_FromSsize_t(entry.hash)) : Ref<>();
    plan.add(PlanOp::SetItem, {to, key, value}, hash.get());
}

namespace {

/// A real hash table calls the hash of a tuple, which calls those of its items.
bool holds_own_hash(const Value* key) {
    if (key->kind != Kind::Tuple) return false;
    return std::ranges::any_of(static_cast<const TupleValue*>(key)->items, [](const Value* item) {
        return item != nullptr && (has_own_hash(item) || holds_own_hash(item));
    });
}

}  // namespace

bool has_own_hashes(const Table& table) {
    std::unordered_set<Py_hash_t> hashes;
    bool found = false, clash = false;
    for (const Table::Entry& entry : table.all()) {
        if (!entry.live) continue;
        found = found || has_own_hash(entry.key);
        if (holds_own_hash(entry.key))
            throw Break{BreakKind::Rebuild, "a dict has keys that contain objects with a user-defined __hash__"};
        clash = clash || !hashes.insert(entry.hash).second;
    }
    // The real table would compare them with `__eq__`.
    if (found && clash)
        throw Break{BreakKind::Rebuild, "a dict has keys with a user-defined __hash__ and equal hashes"};
    return found;
}

int rebuild_by_call(PlanBuilder& plan, const Value* value, Borrowed<> callable, const std::vector<Value*>& arguments) {
    if (int known = plan.known(value); known >= 0) return known;
    std::vector<std::int32_t> from;
    for (Value* argument : arguments) from.push_back(argument->rebuild(plan));
    // In a reference cycle, rebuilding the parts may already have rebuilt this value.
    if (int known = plan.known(value); known >= 0) return known;
    int to = plan.reserve(value);
    plan.add_to(to, PlanOp::Call, std::move(from), callable);
    return to;
}

int rebuild_by_call(PlanBuilder& plan, const Value* value, Borrowed<> callable, const Arguments& arguments) {
    if (arguments.keywords.empty()) return rebuild_by_call(plan, value, callable, arguments.positional);
    if (int known = plan.known(value); known >= 0) return known;
    std::vector<std::int32_t> from, pairs;
    for (Value* argument : arguments.positional) from.push_back(argument->rebuild(plan));
    for (const Keyword& keyword : arguments.keywords) {
        pairs.push_back(plan.constant(keyword.name));
        pairs.push_back(keyword.value->rebuild(plan));
    }
    if (int known = plan.known(value); known >= 0) return known;
    from.push_back(plan.add(PlanOp::Dict, std::move(pairs)));
    int to = plan.reserve(value);
    plan.add_to(to, PlanOp::CallNamed, std::move(from), callable);
    return to;
}

int rebuild_inner_iterator(PlanBuilder& plan, Value* iterator) {
    int made = iterator->rebuild(plan);
    bool gives_itself = iterator->kind == Kind::Iterator || iterator->kind == Kind::Generator;
    return gives_itself ? made : plan.add(PlanOp::Call, {made}, iterable_of_class());
}

PyObject* method_of_class(PyTypeObject* type, const char* name) {
    return checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name)).release();
}

PyObject* builtin_function(const char* name) {
    return PyDict_GetItemString(PyEval_GetBuiltins(), name);
}

}  // namespace stator
