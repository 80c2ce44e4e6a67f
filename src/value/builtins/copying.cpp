/// `copy.copy` and `copy.deepcopy` of containers, constants and plain objects.
#include <string_view>
#include <unordered_map>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "value/builtins/registry.h"
#include "value/kinds/dict.h"
#include "value/kinds/function.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"

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

/// A copy of a plain container; null for other values.
Value* copy_container(Tracer& tracer, Value* value) {
    PyTypeObject* type = value->type();
    if (type == &PyTuple_Type) return value;
    if (type == &PyList_Type) return make_list(tracer, as_sequence(value)->all(tracer));
    if (type == &PyDict_Type) return copy_dict(tracer, static_cast<DictValue*>(value));
    if (type == &PySet_Type) return make_set(tracer, static_cast<SetValue*>(value)->in_order(tracer));
    return nullptr;
}

using Copies = std::unordered_map<Value*, Value*>;

Task deep_copy(Tracer& tracer, Value* value, Copies& copies);

/// Whether instances are copied the default way: a new instance whose `__dict__` is a copy of the original's.
bool is_copied_plainly(Tracer& tracer, PyTypeObject* type, const char* copier) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
        auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
        if (base == &PyBaseObject_Type) continue;
        if ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
        if (PyDict_GetItemWithError(cpython::class_dict(base), interned("__slots__")) != nullptr) return false;
    }
    for (const char* name : {"__new__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", copier,
                             "__getnewargs__", "__getnewargs_ex__"}) {
        PyObject *found = nullptr, *plain = cpython::lookup_in_mro(&PyBaseObject_Type, interned(name), nullptr);
        class_attribute(tracer, type, interned(name), &found);
        if (found != plain) return false;
    }
    static PyObject* const reducers = imported("copyreg", "dispatch_table");
    return PyDict_Contains(reducers, reinterpret_cast<PyObject*>(type)) == 0 && type->tp_dictoffset != 0;
}

/// Copying caches in the class that it has no slots. That is done now: nothing depends on it, and as a side effect it
/// would cost something in every call.
void note_slots(PyTypeObject* type) {
    static PyObject* const note = imported("copyreg", "_slotnames");
    if (PyDict_Contains(cpython::class_dict(type), interned("__slotnames__")) == 0)
        checked(PyObject_CallOneArg(note, reinterpret_cast<PyObject*>(type)));
}

/// The `__dict__` of an instance of a user-defined class, if nothing else has to be copied; otherwise null. `copy`
/// reads attributes of the object through `__getattribute__` and `__getattr__`, if it has those: their results must be
/// those of the class.
Task state_to_copy(Tracer& tracer, Value* value, const char* copier) {
    if (!is_copied_plainly(tracer, value->type(), copier)) co_return nullptr;
    bool reads_attribute = std::string_view(copier) != "__copy__";  // `__copy__` is looked up on the class only
    if (reads_attribute && co_await operations::get_attribute_or(tracer, value, interned(copier), nullptr) != nullptr)
        co_return nullptr;
    for (const char* name : {"__reduce_ex__", "__getstate__"}) {
        auto* method = cast<MethodValue>(co_await operations::get_attribute(tracer, value, interned(name)));
        PyObject* plain = cpython::lookup_in_mro(&PyBaseObject_Type, interned(name), nullptr);
        if (method == nullptr || method->self != value || method->function->object() != plain) co_return nullptr;
    }
    note_slots(value->type());
    Value* state = co_await operations::get_attribute(tracer, value, interned("__dict__"));
    tracer.realize(state);
    co_return state->type() == &PyDict_Type ? state : nullptr;
}

/// Sets the attributes of a new instance; null if its class customizes that.
Task with_state(Tracer& tracer, ObjectValue* copy, DictValue* state) {
    if (state->entries(tracer).empty()) co_return copy;
    if (co_await operations::get_attribute_or(tracer, copy, interned("__setstate__"), nullptr) != nullptr)
        co_return nullptr;
    auto* held = cast<DictValue>(co_await operations::get_attribute(tracer, copy, interned("__dict__")));
    if (held == nullptr || held->owner != copy) co_return nullptr;
    for (Table::Entry* entry : state->entries(tracer)) held->insert(tracer, entry->key, entry->value);
    co_return copy;
}

Task shallow_copy(Tracer& tracer, Value* value) {
    PyObject* of_metaclass = nullptr;
    class_attribute(tracer, Py_TYPE(value->type()), interned("__copy__"), &of_metaclass);
    if (of_metaclass != nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "copy.copy of an object whose metaclass defines __copy__");
    Value* state = co_await tracer.start(state_to_copy(tracer, value, "__copy__"));
    Value* copy = nullptr;
    if (state != nullptr)
        copy = co_await tracer.start(
            with_state(tracer, tracer.make<ObjectValue>(value->type()), static_cast<DictValue*>(state)));
    if (copy == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           std::string("copy.copy of an object of class ") + value->type()->tp_name);
    co_return copy;
}

Task deep_copy_object(Tracer& tracer, Value* value, Copies& copies) {
    Value* state = co_await tracer.start(state_to_copy(tracer, value, "__deepcopy__"));
    if (state == nullptr) co_return nullptr;
    auto* copy = tracer.make<ObjectValue>(value->type());
    copies[value] = copy;
    auto* parts = cast<DictValue>(co_await tracer.start(deep_copy(tracer, state, copies)));
    if (parts == nullptr) co_return nullptr;
    co_return co_await tracer.start(with_state(tracer, copy, parts));
}

Task deep_copy_dict(Tracer& tracer, DictValue* value, Copies& copies) {
    auto* copy = tracer.make<DictValue>();
    copies[value] = copy;
    for (Table::Entry* entry : value->entries(tracer)) {
        Value* key = co_await tracer.start(deep_copy(tracer, entry->key, copies));
        Value* part = key == nullptr ? nullptr : co_await tracer.start(deep_copy(tracer, entry->value, copies));
        if (part == nullptr) co_return nullptr;
        copy->table.insert(tracer, key, part);
    }
    co_return copy;
}

/// A deep copy of plain containers and objects down to immutable values; null if anything else is met.
Task deep_copy(Tracer& tracer, Value* value, Copies& copies) {
    tracer.realize(value);
    if (is_immutable(value)) co_return value;
    if (auto known = copies.find(value); known != copies.end()) co_return known->second;
    PyTypeObject* type = value->type();
    if (type == &PyList_Type) {
        ListValue* copy = make_list(tracer, {});
        copies[value] = copy;
        for (Value* item : as_sequence(value)->all(tracer)) {
            Value* part = co_await tracer.start(deep_copy(tracer, item, copies));
            if (part == nullptr) co_return nullptr;
            copy->items.push_back(part);
        }
        co_return copy;
    }
    if (type == &PyTuple_Type || type == torch_size_class()) {
        std::vector<Value*> parts;
        bool same = true;
        for (Value* item : as_sequence(value)->all(tracer)) {
            parts.push_back(co_await tracer.start(deep_copy(tracer, item, copies)));
            if (parts.back() == nullptr) co_return nullptr;
            same = same && parts.back() == item;
        }
        // A tuple of immutable items is its own copy. In a reference cycle, it may already have been copied.
        if (auto known = copies.find(value); known != copies.end()) co_return known->second;
        Value* copy = same ? value : make_tuple(tracer, std::move(parts), type);
        copies[value] = copy;
        co_return copy;
    }
    if (type == &PyDict_Type)
        co_return co_await tracer.start(deep_copy_dict(tracer, static_cast<DictValue*>(value), copies));
    if (type == &PySet_Type) {
        std::vector<Value*> elements;
        for (Value* element : static_cast<SetValue*>(value)->in_order(tracer)) {
            elements.push_back(co_await tracer.start(deep_copy(tracer, element, copies)));
            if (elements.back() == nullptr) co_return nullptr;
        }
        co_return make_set(tracer, elements);
    }
    if (value->kind != Kind::Object) co_return nullptr;
    co_return co_await tracer.start(deep_copy_object(tracer, value, copies));
}

Outcome copy_copy(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "copy", arguments, {"x"}, 1);
    Value* value = bound[0];
    tracer.realize(value);
    if (is_immutable(value) || value->type() == torch_size_class()) return value;
    if (Value* copy = copy_container(tracer, value)) return copy;
    if (operations::user_method(tracer, value, "__copy__") != nullptr)
        return operations::call_method(tracer, value, "__copy__", Arguments::of());
    bool has_own_copy =
        value->type() == &PyODict_Type || value->type() == default_dict_class() || value->kind == Kind::Deque;
    // `copy.copy` also copies attributes of the instance, which the method `copy` does not.
    if (has_own_copy && value->source == nullptr && static_cast<ObjectValue*>(value)->attributes.empty())
        return operations::call_method(tracer, value, "copy", Arguments::of());
    if (value->kind == Kind::Object) return tracer.start(shallow_copy(tracer, value));
    tracer.break_graph(BreakKind::UnknownObject,
                       std::string("copy.copy of an object of class ") + value->type()->tp_name);
}

Task deep_copy_from(Tracer& tracer, Value* value) {
    Copies copies;
    Value* copy = co_await tracer.start(deep_copy(tracer, value, copies));
    if (copy == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           std::string("copy.deepcopy of an object of class ") + value->type()->tp_name);
    co_return copy;
}

Outcome copy_deepcopy(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "deepcopy", arguments, {"x", "memo", "_nil"}, 1);
    if (bound[1] != nullptr) tracer.break_graph(BreakKind::UnknownObject, "copy.deepcopy is called with a memo");
    return tracer.start(deep_copy_from(tracer, bound[0]));
}

}  // namespace

void register_copying(Handlers& handlers) {
    handlers.add("copy", "copy", copy_copy);
    handlers.add("copy", "deepcopy", copy_deepcopy);
}

}  // namespace stator
