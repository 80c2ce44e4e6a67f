#include "value/rebuilding.h"

#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "value/dict.h"
#include "value/sequence.h"

namespace stator {

bool is_leaf(const Value* value) {
    switch (value->kind) {
        case Kind::Constant:
        case Kind::Tensor:
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
        // The program has put another dict in its place.
        plan.add(PlanOp::SetAttribute, {to, object->own_dict->rebuild(plan)}, interned("__dict__"));
        return;
    }
    int dict = rebuild_own_dict(plan, to, object->own_dict);
    for (Table::Entry* entry : object->own_dict->table.entries()) {
        int key = entry->key->rebuild(plan), value = entry->value->rebuild(plan);
        plan.add(PlanOp::SetItem, {dict, key, value});
    }
}

PyObject* builtin_function(const char* name) {
    return PyDict_GetItemString(PyEval_GetBuiltins(), name);
}

}  // namespace stator
