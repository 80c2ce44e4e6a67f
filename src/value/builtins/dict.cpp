/// `dict`, `OrderedDict`, `defaultdict`, views and mapping proxies: constructors and methods. `Counter` is Python code
/// on top of these.
#include "value/kinds/dict.h"
#include "base/names.h"
#include "value/builtins/registry.h"
#include "value/kinds/class.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/protocol/identity.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"

namespace stator {

namespace {

using What = DictViewValue::What;

DictValue* dict_receiver(Tracer& tracer, const Arguments& arguments, const char* method, std::size_t least,
                         std::size_t most) {
    return receiver<DictValue>(tracer, arguments, &PyDict_Type, method, least, most);
}

DictValue* ordered_receiver(Tracer& tracer, const Arguments& arguments, const char* method) {
    auto* self = arguments.positional.empty() ? nullptr : cast<DictValue>(arguments.positional[0]);
    if (self == nullptr || !PyType_IsSubtype(self->class_, &PyODict_Type))
        raise_wrong_receiver(tracer, &PyODict_Type, method, arguments);
    tracer.realize(self);
    return self;
}

// --- filling
// -----------------------------------------------------------------------------------------------------------

Task fill(Tracer& tracer, DictValue* dict, Value* other, std::vector<Keyword> keywords, Value* result) {
    if (other != nullptr) co_await update_dict(tracer, dict, other);
    for (const Keyword& keyword : keywords)
        co_await put_into_dict(tracer, dict, tracer.constant(keyword.name), keyword.value);
    co_return result;
}

/// Fills from `[other], **keywords`, the arguments from `first` on; returns `result`.
Outcome fill_from(Tracer& tracer, DictValue* dict, const Arguments& arguments, std::size_t first, const char* function,
                  Value* result) {
    std::size_t count = arguments.positional.size() - std::min(first, arguments.positional.size());
    if (count > 1)
        tracer.raise(PyExc_TypeError,
                     std::string(function) + " expected at most 1 argument, got " + std::to_string(count));
    Value* other = count == 1 ? arguments.positional[first] : nullptr;
    return tracer.start(fill(tracer, dict, other, arguments.keywords, result));
}

Outcome make_dict(Tracer& tracer, const Arguments& arguments) {
    auto* dict = tracer.make<DictValue>();
    return fill_from(tracer, dict, arguments, 0, "dict", dict);
}

Outcome make_ordered_dict(Tracer& tracer, const Arguments& arguments) {
    auto* dict = tracer.make<DictValue>(&PyODict_Type);
    return fill_from(tracer, dict, arguments, 0, "OrderedDict", dict);
}

void take_factory(Tracer& tracer, DictValue* dict, Value* factory) {
    tracer.realize(factory);
    if (factory->object() == Py_None) return;
    if (factory->type()->tp_call == nullptr) tracer.raise(PyExc_TypeError, "first argument must be callable or None");
    dict->default_factory = factory;
}

Outcome make_default_dict(Tracer& tracer, const Arguments& arguments) {
    auto* dict = tracer.make<DictValue>(default_dict_class());
    if (!arguments.positional.empty()) take_factory(tracer, dict, arguments.positional[0]);
    return fill_from(tracer, dict, arguments, 1, "dict", dict);
}

Outcome dict_init(Tracer& tracer, const Arguments& arguments) {
    auto* self = cast<DictValue>(arguments.positional.empty() ? nullptr : arguments.positional[0]);
    if (self == nullptr) raise_wrong_receiver(tracer, &PyDict_Type, "__init__", arguments);
    return fill_from(tracer, self, arguments, 1, "dict", tracer.none());
}

Outcome default_dict_init(Tracer& tracer, const Arguments& arguments) {
    auto* self = cast<DictValue>(arguments.positional.empty() ? nullptr : arguments.positional[0]);
    if (self == nullptr) raise_wrong_receiver(tracer, default_dict_class(), "__init__", arguments);
    if (arguments.positional.size() > 1) take_factory(tracer, self, arguments.positional[1]);
    return fill_from(tracer, self, arguments, 2, "dict", tracer.none());
}

Outcome dict_update(Tracer& tracer, const Arguments& arguments) {
    auto* self = cast<DictValue>(arguments.positional.empty() ? nullptr : arguments.positional[0]);
    if (self == nullptr) raise_wrong_receiver(tracer, &PyDict_Type, "update", arguments);
    tracer.realize(self);
    return fill_from(tracer, self, arguments, 1, "update", tracer.none());
}

Task fill_with_keys(Tracer& tracer, Value* type, Value* keys, Value* value) {
    Value* made = co_await operations::call(tracer, type, Arguments::of());
    Value* iterator = co_await operations::iterate(tracer, keys);
    while (true) {
        Value* key = co_await operations::next(tracer, iterator);
        if (key == tracer.exhausted()) co_return made;
        co_await operations::set_item(tracer, made, key, value);
    }
}

Outcome dict_fromkeys(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() < 2 || arguments.positional.size() > 3)
        expect_arguments(tracer, &PyDict_Type, "fromkeys", arguments, 1, 2);
    Value* value = arguments.positional.size() == 3 ? arguments.positional[2] : arguments.keyword("value");
    return tracer.start(fill_with_keys(tracer, arguments.positional[0], arguments.positional[1],
                                       value != nullptr ? value : tracer.none()));
}

// --- looking up and removing
// -------------------------------------------------------------------------------------------

Outcome dict_get(Tracer& tracer, const Arguments& arguments) {
    auto* self = dict_receiver(tracer, arguments, "get", 1, 2);
    if (Value* found = self->find(tracer, arguments.positional[1])) return found;
    return arguments.positional.size() == 3 ? arguments.positional[2] : tracer.none();
}

Outcome dict_setdefault(Tracer& tracer, const Arguments& arguments) {
    auto* self = dict_receiver(tracer, arguments, "setdefault", 1, 2);
    if (Value* found = self->find(tracer, arguments.positional[1])) return found;
    Value* value = arguments.positional.size() == 3 ? arguments.positional[2] : tracer.none();
    if (sets_by_method(tracer, self))
        tracer.break_graph(BreakKind::UnknownObject, "setdefault of an OrderedDict whose class defines __setitem__");
    self->insert(tracer, arguments.positional[1], value);
    return value;
}

Outcome dict_pop(Tracer& tracer, const Arguments& arguments) {
    auto* self = dict_receiver(tracer, arguments, "pop", 1, 2);
    bool hashes_key = self->length(tracer) != 0;  // an empty dict does not hash the key, so a list is accepted
    if (Value* removed = hashes_key ? self->remove(tracer, arguments.positional[1]) : nullptr) return removed;
    if (arguments.positional.size() == 3) return arguments.positional[2];
    raise_key_error(tracer, arguments.positional[1]);
}

/// `OrderedDict.pop` takes its default by name too, and calls `__missing__`.
Outcome ordered_pop(Tracer& tracer, const Arguments& arguments) {
    auto* self = ordered_receiver(tracer, arguments, "pop");
    Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
    if (rest.count() < 1 || rest.count() > 2) expect_arguments(tracer, &PyODict_Type, "pop", arguments, 1, 2);
    auto bound = bind_builtin(tracer, "pop", rest, {"key", "default"}, 1);
    if (Value* removed = self->remove(tracer, bound[0])) return removed;
    if (bound[1] != nullptr) return bound[1];
    raise_key_error(tracer, bound[0]);
}

Outcome pop_entry(Tracer& tracer, DictValue* self, bool last) {
    std::vector<Table::Entry*> entries = self->entries(tracer);
    if (entries.empty())
        tracer.raise(PyExc_KeyError, PyType_IsSubtype(self->class_, &PyODict_Type) ? "dictionary is empty"
                                                                                   : "popitem(): dictionary is empty");
    Table::Entry* entry = last ? entries.back() : entries.front();
    Value *key = entry->key, *value = entry->value;
    self->remove(tracer, key);
    return make_tuple(tracer, {key, value});
}

Outcome dict_popitem(Tracer& tracer, const Arguments& arguments) {
    return pop_entry(tracer, dict_receiver(tracer, arguments, "popitem", 0, 0), true);
}

Task pop_by_truth(Tracer& tracer, DictValue* self, Value* last) {
    Value* truth = co_await operations::truth(tracer, last);
    co_return co_await pop_entry(tracer, self, is_true(truth));
}

Outcome ordered_popitem(Tracer& tracer, const Arguments& arguments) {
    auto* self = ordered_receiver(tracer, arguments, "popitem");
    Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
    auto bound = bind_builtin(tracer, "popitem", rest, {"last"}, 0);
    if (bound[0] == nullptr) return pop_entry(tracer, self, true);
    return tracer.start(pop_by_truth(tracer, self, bound[0]));
}

Task move_entry(Tracer& tracer, DictValue* self, Value* key, Value* last) {
    Value* truth = co_await operations::truth(tracer, last);
    if (self->find(tracer, key) == nullptr) raise_key_error(tracer, key);
    self->move(tracer, key, is_true(truth));
    co_return tracer.none();
}

Outcome ordered_move_to_end(Tracer& tracer, const Arguments& arguments) {
    auto* self = ordered_receiver(tracer, arguments, "move_to_end");
    Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
    auto bound = bind_builtin(tracer, "move_to_end", rest, {"key", "last"}, 1);
    return tracer.start(move_entry(tracer, self, bound[0], bound[1] != nullptr ? bound[1] : tracer.boolean(true)));
}

Outcome dict_clear(Tracer& tracer, const Arguments& arguments) {
    dict_receiver(tracer, arguments, "clear", 0, 0)->clear(tracer);
    return tracer.none();
}

Outcome dict_copy(Tracer& tracer, const Arguments& arguments) {
    return copy_dict(tracer, dict_receiver(tracer, arguments, "copy", 0, 0));
}

Task copy_by_class(Tracer& tracer, DictValue* self) {
    Value* type = tracer.constant(reinterpret_cast<PyObject*>(self->class_));
    Value* copy = nullptr;
    if (PyType_IsSubtype(self->class_, default_dict_class())) {
        Value* factory = co_await operations::get_attribute(tracer, self, interned("default_factory"));
        co_return co_await operations::call(tracer, type, Arguments::of(factory, static_cast<Value*>(self)));
    }
    copy = co_await operations::call(tracer, type, Arguments::of());
    co_await update_dict(tracer, static_cast<DictValue*>(copy), self);
    co_return copy;
}

/// `OrderedDict.copy` and `defaultdict.copy` keep the class.
Outcome subclass_copy(Tracer& tracer, const Arguments& arguments) {
    return tracer.start(copy_by_class(tracer, dict_receiver(tracer, arguments, "copy", 0, 0)));
}

Outcome default_dict_missing(Tracer& tracer, const Arguments& arguments) {
    auto* self = dict_receiver(tracer, arguments, "__getitem__", 1, 1);
    return self->get_item(tracer, arguments.positional[1]);
}

// --- views
// -------------------------------------------------------------------------------------------------------------

template <What what>
Outcome dict_view(Tracer& tracer, const Arguments& arguments) {
    constexpr const char* kMethods[] = {"keys", "values", "items"};
    return tracer.make<DictViewValue>(dict_receiver(tracer, arguments, kMethods[static_cast<int>(what)], 0, 0), what);
}

Outcome reverse_dict(Tracer& tracer, const Arguments& arguments) {
    Value* self = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (auto* view = cast<DictViewValue>(self); view != nullptr && arguments.count() == 1) {
        if (view->what == What::Proxy) return tracer.make<DictIterator>(tracer, view->dict, What::Keys, true);
        return tracer.make<DictIterator>(tracer, view->dict, view->what, true);
    }
    if (self != nullptr && cast<DictValue>(self) == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "__reversed__ of a dict view is called with arguments that Stator has no model of");
    return tracer.make<DictIterator>(tracer, dict_receiver(tracer, arguments, "__reversed__", 0, 0), What::Keys, true);
}

Outcome make_proxy(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "mappingproxy", arguments, {"mapping"}, 1);
    tracer.realize(bound[0]);
    if (auto* dict = cast<DictValue>(bound[0])) return tracer.make<DictViewValue>(dict, What::Proxy);
    if (as_sequence(bound[0]) != nullptr || bound[0]->kind == Kind::Constant)
        raise_type_error(tracer, "mappingproxy() argument must be a mapping, not ", bound[0], "");
    tracer.break_graph(BreakKind::UnknownObject, "a mappingproxy of a mapping that is not a dict");
}

/// Calls the method of the underlying dict.
template <Handler of_dict>
Outcome through_proxy(Tracer& tracer, const Arguments& arguments) {
    auto* view = cast<DictViewValue>(arguments.positional.empty() ? nullptr : arguments.positional[0]);
    if (view == nullptr || view->what != What::Proxy)
        tracer.break_graph(BreakKind::UnknownObject, "a method of mappingproxy is called on an object that is not one");
    Arguments forwarded = arguments;
    forwarded.positional[0] = view->dict;
    return of_dict(tracer, forwarded);
}

Task disjoint(Tracer& tracer, Value* view, Value* other) {
    Value* iterator = co_await operations::iterate(tracer, other);
    while (true) {
        Value* item = co_await operations::next(tracer, iterator);
        if (item == tracer.exhausted()) co_return tracer.boolean(true);
        Value* found = co_await view->contains(tracer, item);
        if (is_true(found)) co_return tracer.boolean(false);
    }
}

Outcome view_isdisjoint(Tracer& tracer, const Arguments& arguments) {
    auto* view = cast<DictViewValue>(arguments.positional.empty() ? nullptr : arguments.positional[0]);
    if (view == nullptr || arguments.positional.size() != 2)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "isdisjoint of a dict view is called with arguments that Stator has no model of");
    return tracer.start(disjoint(tracer, view, arguments.positional[1]));
}

/// `collections._count_elements`, which `collections.Counter` uses.
Task count_elements(Tracer& tracer, Value* mapping, Value* iterable) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    while (true) {
        Value* element = co_await operations::next(tracer, iterator);
        if (element == tracer.exhausted()) co_return tracer.none();
        auto* dict = cast<DictValue>(mapping);
        Value* before = nullptr;
        if (dict != nullptr && operations::user_method(tracer, dict, "get") == nullptr)
            before = dict->find(tracer, element);
        else
            before =
                co_await operations::call_method(tracer, mapping, "get", Arguments::of(element, tracer.integer(0)));
        if (before == nullptr) before = tracer.integer(0);
        Value* after = co_await operations::binary(tracer, BinaryOperator::Add, before, tracer.integer(1));
        co_await operations::set_item(tracer, mapping, element, after);
    }
}

Outcome count_into(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "_count_elements", arguments, {"mapping", "iterable"}, 2);
    return tracer.start(count_elements(tracer, bound[0], bound[1]));
}

}  // namespace

void register_dicts(Handlers& handlers) {
    handlers.add(reinterpret_cast<PyObject*>(&PyDict_Type), make_dict);
    handlers.add(reinterpret_cast<PyObject*>(&PyODict_Type), make_ordered_dict);
    handlers.add(reinterpret_cast<PyObject*>(default_dict_class()), make_default_dict);
    handlers.add(reinterpret_cast<PyObject*>(&PyDictProxy_Type), make_proxy);
    handlers.add_method(&PyDict_Type, "__init__", dict_init);
    handlers.add_method(&PyODict_Type, "__init__", dict_init);
    handlers.add_method(default_dict_class(), "__init__", default_dict_init);
    handlers.add_method(default_dict_class(), "__missing__", default_dict_missing);
    handlers.add_method(default_dict_class(), "copy", subclass_copy);
    handlers.add_method(default_dict_class(), "__copy__", subclass_copy);
    handlers.add_method(&PyODict_Type, "copy", subclass_copy);
    handlers.add_method(&PyODict_Type, "pop", ordered_pop);
    handlers.add_method(&PyODict_Type, "popitem", ordered_popitem);
    handlers.add_method(&PyODict_Type, "move_to_end", ordered_move_to_end);
    handlers.add_method(&PyDict_Type, "copy", dict_copy);
    handlers.add_method(&PyDict_Type, "pop", dict_pop);
    handlers.add_method(&PyDict_Type, "popitem", dict_popitem);
    handlers.add_method(&PyDict_Type, "get", dict_get);
    for (PyTypeObject* type : {&PyDict_Type, &PyODict_Type}) {
        handlers.add_method(type, "update", dict_update);
        handlers.add_method(type, "setdefault", dict_setdefault);
        handlers.add_method(type, "clear", dict_clear);
        handlers.add_method(type, "keys", dict_view<What::Keys>);
        handlers.add_method(type, "values", dict_view<What::Values>);
        handlers.add_method(type, "items", dict_view<What::Items>);
        handlers.add_method(type, "fromkeys", dict_fromkeys);
        handlers.add_method(type, "__reversed__", reverse_dict);
    }
    for (PyTypeObject* type : {&PyDictKeys_Type, &PyDictValues_Type, &PyDictItems_Type, &PyODictKeys_Type,
                               &PyODictValues_Type, &PyODictItems_Type}) {
        handlers.add_method(type, "__reversed__", reverse_dict);
        handlers.add_method(type, "isdisjoint", view_isdisjoint);
    }
    handlers.add_method(&PyDictProxy_Type, "get", through_proxy<dict_get>);
    handlers.add_method(&PyDictProxy_Type, "copy", through_proxy<dict_copy>);
    handlers.add_method(&PyDictProxy_Type, "keys", through_proxy<dict_view<What::Keys>>);
    handlers.add_method(&PyDictProxy_Type, "values", through_proxy<dict_view<What::Values>>);
    handlers.add_method(&PyDictProxy_Type, "items", through_proxy<dict_view<What::Items>>);
    handlers.add_method(&PyDictProxy_Type, "__reversed__", reverse_dict);
    handlers.add("_collections", "_count_elements", count_into);
}

}  // namespace stator
