/// `copy.copy` and `copy.deepcopy` of containers and constants.
#include <unordered_map>

#include "value/calling.h"
#include "value/dict.h"
#include "value/raising.h"
#include "value/registry.h"
#include "value/sequence.h"
#include "value/set.h"

namespace stator {

namespace {

bool is_immutable(Value* value) {
    switch (value->kind) {
        case Kind::Constant:
        case Kind::Class:
        case Kind::Builtin:
        case Kind::Function:
            return true;
        default:
            return value->type() == &PyFrozenSet_Type;
    }
}

/// A copy of a plain container; null for what is not one.
Value* copy_container(Tracer& tracer, Value* value) {
    PyTypeObject* type = value->type();
    if (type == &PyTuple_Type) return value;
    if (type == &PyList_Type) return make_list(tracer, as_sequence(value)->all(tracer));
    if (type == &PyDict_Type) return copy_dict(tracer, static_cast<DictValue*>(value));
    if (type == &PySet_Type) return make_set(tracer, static_cast<SetValue*>(value)->in_order(tracer));
    return nullptr;
}

Outcome copy_copy(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "copy", arguments, {"x"}, 1);
    Value* value = bound[0];
    tracer.realize(value);
    if (is_immutable(value) || value->type() == torch_size_class()) return value;
    if (Value* copy = copy_container(tracer, value)) return copy;
    if (operations::user_method(tracer, value, "__copy__") != nullptr)
        return call_method_with(tracer, value, "__copy__");
    if (value->type() == &PyODict_Type || value->type() == default_dict_class() || value->kind == Kind::Deque)
        return call_method_with(tracer, value, "copy");
    tracer.break_graph(BreakKind::UnknownObject,
                       std::string("copy.copy of an object of class ") + value->type()->tp_name);
}

using Copies = std::unordered_map<Value*, Value*>;

/// A deep copy of plain containers down to immutable values; null where something else is met.
Value* deep_copy(Tracer& tracer, Value* value, Copies& copies) {
    tracer.realize(value);
    if (is_immutable(value)) return value;
    if (auto known = copies.find(value); known != copies.end()) return known->second;
    PyTypeObject* type = value->type();
    if (type == &PyList_Type) {
        ListValue* copy = make_list(tracer, {});
        copies[value] = copy;
        for (Value* item : as_sequence(value)->all(tracer)) {
            Value* part = deep_copy(tracer, item, copies);
            if (part == nullptr) return nullptr;
            copy->items.push_back(part);
        }
        return copy;
    }
    if (type == &PyTuple_Type || type == torch_size_class()) {
        std::vector<Value*> parts;
        bool same = true;
        for (Value* item : as_sequence(value)->all(tracer)) {
            parts.push_back(deep_copy(tracer, item, copies));
            if (parts.back() == nullptr) return nullptr;
            same = same && parts.back() == item;
        }
        // A tuple of immutable items is its own copy; one in a cycle may have been copied meanwhile.
        if (auto known = copies.find(value); known != copies.end()) return known->second;
        Value* copy = same ? value : make_tuple(tracer, std::move(parts), type);
        copies[value] = copy;
        return copy;
    }
    if (type == &PyDict_Type) {
        auto* copy = tracer.make<DictValue>();
        copies[value] = copy;
        for (Table::Entry* entry : static_cast<DictValue*>(value)->entries(tracer)) {
            Value *key = deep_copy(tracer, entry->key, copies), *part = deep_copy(tracer, entry->value, copies);
            if (key == nullptr || part == nullptr) return nullptr;
            copy->table.insert(tracer, key, part);
        }
        return copy;
    }
    if (type == &PySet_Type) {
        std::vector<Value*> elements;
        for (Value* element : static_cast<SetValue*>(value)->in_order(tracer)) {
            elements.push_back(deep_copy(tracer, element, copies));
            if (elements.back() == nullptr) return nullptr;
        }
        return make_set(tracer, elements);
    }
    return nullptr;
}

Outcome copy_deepcopy(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "deepcopy", arguments, {"x", "memo", "_nil"}, 1);
    Copies copies;
    if (bound[1] == nullptr)
        if (Value* copy = deep_copy(tracer, bound[0], copies)) return copy;
    tracer.break_graph(BreakKind::UnknownObject,
                       std::string("copy.deepcopy of an object of class ") + bound[0]->type()->tp_name);
}

}  // namespace

void register_copying(Handlers& handlers) {
    handlers.add("copy", "copy", copy_copy);
    handlers.add("copy", "deepcopy", copy_deepcopy);
}

}  // namespace stator
