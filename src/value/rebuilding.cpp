#include "value/rebuilding.h"

#include <algorithm>

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
            return tuple->source != nullptr || (tuple->attributes.empty() && all_leaves(tuple->items));
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

void rebuild_attributes(PlanBuilder& plan, int to, ObjectValue* object) {
    for (auto& [name, value] : object->attributes)
        if (value != nullptr) plan.add(PlanOp::SetAttribute, {to, value->rebuild(plan)}, name);
}

PyObject* builtin_function(const char* name) {
    return PyDict_GetItemString(PyEval_GetBuiltins(), name);
}

}  // namespace stator
