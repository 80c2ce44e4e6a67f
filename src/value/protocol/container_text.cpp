#include "value/protocol/container_text.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/iterators.h"
#include "value/kinds/deque.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/protocol/operations.h"
#include "value/protocol/text.h"

namespace stator {

namespace {

Task join_items(Tracer& tracer, std::vector<Value*> items) {
    std::string text;
    for (std::size_t i = 0; i < items.size(); ++i) {
        Value* part = co_await repr_of(tracer, items[i]);
        if (i > 0) text += ", ";
        text += utf8(part->object());
    }
    co_return tracer.string(text);
}

Task join_entries(Tracer& tracer, DictValue* dict) {
    std::string text;
    std::vector<Table::Entry*> entries = dict->entries(tracer);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        Value* key = co_await repr_of(tracer, entries[i]->key);
        if (i > 0) text += ", ";
        text += std::string(utf8(key->object())) + ": ";
        Value* value = co_await repr_of(tracer, dict->value_of(tracer, entries[i]));
        text += utf8(value->object());
    }
    co_return tracer.string(text);
}

/// The text of the items of a container, between its brackets.
Outcome joined(Tracer& tracer, std::vector<Value*> items) {
    return tracer.start(join_items(tracer, std::move(items)));
}
Outcome joined(Tracer& tracer, DictValue* dict) {
    return tracer.start(join_entries(tracer, dict));
}
Outcome joined_pairs(Tracer& tracer, DictValue* dict) {
    std::vector<Value*> pairs;
    for (Table::Entry* entry : dict->entries(tracer))
        pairs.push_back(make_tuple(tracer, {entry->key, dict->value_of(tracer, entry)}));
    return joined(tracer, std::move(pairs));
}

/// The name of the value's class, which can be assigned if the class is not written in C.
std::string class_name(Tracer& tracer, Value* value) {
    Value* type = tracer.constant(reinterpret_cast<PyObject*>(value->type()));
    Outcome name = type->get_attribute(tracer, interned("__name__"));
    if (name.is_pending()) tracer.break_graph(BreakKind::UnknownObject, "a metaclass computes __name__");
    tracer.realize(name.value());
    return std::string(utf8(name.value()->object()));
}

/// C code gets the items of an instance of a subclass by a method, which a subclass may override.
void expect_inherited(Tracer& tracer, Value* value, const char* method) {
    if (operations::user_method(tracer, value, method) != nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "repr() of an object of class " + type_name(value->type()) + ", which defines " + method);
}

Task text_of_sequence(Tracer& tracer, SequenceValue* sequence) {
    Value* items = co_await joined(tracer, sequence->all(tracer));
    const std::string text(utf8(items->object()));
    if (sequence->kind == Kind::List) co_return tracer.string("[" + text + "]");
    co_return tracer.string("(" + text + (sequence->items.size() == 1 ? ",)" : ")"));
}

Task text_of_dict(Tracer& tracer, DictValue* dict) {
    Value* items = co_await joined(tracer, dict);
    co_return tracer.string("{" + std::string(utf8(items->object())) + "}");
}

/// `OrderedDict([(1, 2)])` or, in newer Pythons, `OrderedDict({1: 2})`.
bool prints_as_dict() {
    static const bool answer = [] {
        Ref<> dict = checked(PyODict_New());
        checked(PyODict_SetItem(dict.get(), Py_None, Py_None));
        Ref<> text = checked(PyObject_Repr(dict.get()));
        return utf8(text.get()).find('{') != std::string_view::npos;
    }();
    return answer;
}

Task text_of_ordered_dict(Tracer& tracer, DictValue* dict) {
    expect_inherited(tracer, dict, "items");
    const std::string name = class_name(tracer, dict);
    if (dict->length(tracer) == 0) co_return tracer.string(name + "()");
    const bool as_dict = prints_as_dict();
    Outcome text_of_items = as_dict ? joined(tracer, dict) : joined_pairs(tracer, dict);
    Value* items = co_await text_of_items;
    const std::string text(utf8(items->object()));
    co_return tracer.string(name + (as_dict ? "({" + text + "})" : "([" + text + "])"));
}

Task text_of_set(Tracer& tracer, SetValue* set) {
    expect_inherited(tracer, set, "__iter__");
    const std::string name = class_name(tracer, set);
    if (set->table.size() == 0) co_return tracer.string(name + "()");
    if (set->real(tracer) == nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "repr() of a set with elements that are not constants");
    Value* items = co_await joined(tracer, set->in_order(tracer));
    const std::string text = "{" + std::string(utf8(items->object())) + "}";
    co_return tracer.string(set->class_ == &PySet_Type ? text : name + "(" + text + ")");
}

Task text_of_deque(Tracer& tracer, DequeValue* deque) {
    expect_inherited(tracer, deque, "__iter__");
    const std::string name = class_name(tracer, deque);
    const std::string end = deque->longest < 0 ? "])" : "], maxlen=" + std::to_string(deque->longest) + ")";
    Value* items = co_await joined(tracer, deque->items);
    co_return tracer.string(name + "([" + std::string(utf8(items->object())) + end);
}

Task text_of_view(Tracer& tracer, DictViewValue* view) {
    std::vector<Value*> shown;
    for (Table::Entry* entry : view->dict->entries(tracer)) {
        Value* value = view->what == DictViewValue::What::Keys ? nullptr : view->dict->value_of(tracer, entry);
        shown.push_back(value == nullptr                            ? entry->key
                        : view->what == DictViewValue::What::Values ? value
                                                                    : make_tuple(tracer, {entry->key, value}));
    }
    Value* items = co_await joined(tracer, std::move(shown));
    co_return tracer.string(std::string(view->type()->tp_name) + "([" + std::string(utf8(items->object())) + "])");
}

}  // namespace

std::optional<Outcome> repr_by(Tracer& tracer, PyTypeObject* owner, Value* container) {
    tracer.realize(container);
    SequenceValue* sequence = as_sequence(container);
    if (sequence != nullptr && (owner == &PyList_Type || owner == &PyTuple_Type))
        return tracer.start(text_of_sequence(tracer, sequence));
    if (auto* dict = cast<DictValue>(container)) {
        const bool is_ordered = PyType_IsSubtype(dict->class_, &PyODict_Type) != 0;
        // `dict.__repr__` of an ordered dict would show the order of the dict below it.
        if (owner == &PyDict_Type && !is_ordered) return tracer.start(text_of_dict(tracer, dict));
        if (owner == &PyODict_Type && is_ordered) return tracer.start(text_of_ordered_dict(tracer, dict));
    }
    auto* set = cast<SetValue>(container);
    if (set != nullptr && (owner == &PySet_Type || owner == &PyFrozenSet_Type))
        return tracer.start(text_of_set(tracer, set));
    if (auto* deque = cast<DequeValue>(container); deque != nullptr && owner == deque_class())
        return tracer.start(text_of_deque(tracer, deque));
    // The classes for ordered dicts inherit the method.
    auto* view = cast<DictViewValue>(container);
    if (view != nullptr && view->what != DictViewValue::What::Proxy && cpython::is_dict_view(owner))
        return tracer.start(text_of_view(tracer, view));
    return std::nullopt;
}

}  // namespace stator
