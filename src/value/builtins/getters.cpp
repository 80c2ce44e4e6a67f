/// `operator.itemgetter`, `operator.attrgetter` and `operator.methodcaller`: created in the trace or outside.
#include <string_view>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "effect/plan.h"
#include "value/builtins/registry.h"
#include "value/kinds/object.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/protocol/calling.h"
#include "value/protocol/raising.h"

namespace stator {

namespace {

PyTypeObject* operator_class(const char* name) {
    return imported_class("operator", name);
}

PyTypeObject* item_getter_class() {
    static PyTypeObject* const type = operator_class("itemgetter");
    return type;
}

PyTypeObject* attribute_getter_class() {
    static PyTypeObject* const type = operator_class("attrgetter");
    return type;
}

PyTypeObject* method_caller_class() {
    static PyTypeObject* const type = operator_class("methodcaller");
    return type;
}

/// One of the three, created in the trace: its class and its constructor arguments.
struct GetterValue final : ObjectValue {
    GetterValue(PyTypeObject* type, Arguments arguments) : ObjectValue(type), arguments(std::move(arguments)) {}
    Arguments arguments;

    Outcome call(Tracer& tracer, const Arguments& given) override;
    int rebuild(PlanBuilder& plan) override {
        return rebuild_by_call(plan, this, reinterpret_cast<PyObject*>(class_), arguments);
    }
};

Task get_items(Tracer& tracer, std::vector<Value*> keys, Value* object) {
    if (keys.size() == 1) co_return co_await operations::get_item(tracer, object, keys[0]);
    std::vector<Value*> items;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        Value* item = co_await operations::get_item(tracer, object, keys[i]);
        items.push_back(item);
    }
    co_return make_tuple(tracer, std::move(items));
}

/// `a.b.c` of an object.
Task get_path(Tracer& tracer, PyObject* path, Value* object) {
    std::string_view rest = utf8(path);
    while (true) {
        std::size_t dot = rest.find('.');
        std::string_view part = rest.substr(0, dot);
        PyObject* name = PyUnicode_FromStringAndSize(part.data(), static_cast<Py_ssize_t>(part.size()));
        PyUnicode_InternInPlace(&name);
        tracer.keep(Ref<>::steal(name));
        object = co_await operations::get_attribute(tracer, object, name);
        if (dot == std::string_view::npos) co_return object;
        rest = rest.substr(dot + 1);
    }
}

Task get_paths(Tracer& tracer, std::vector<Value*> paths, Value* object) {
    std::vector<Value*> found;
    for (std::size_t i = 0; i < paths.size(); ++i) {
        Value* attribute = co_await tracer.start(get_path(tracer, paths[i]->object(), object));
        found.push_back(attribute);
    }
    if (found.size() == 1) co_return found[0];
    co_return make_tuple(tracer, std::move(found));
}

Task call_by_name(Tracer& tracer, Value* object, PyObject* name, Arguments arguments) {
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    tracer.keep(Ref<>::steal(name));
    Value* method = co_await operations::get_attribute(tracer, object, name);
    co_return co_await forwarded(operations::call(tracer, method, arguments));
}

Outcome apply(Tracer& tracer, PyTypeObject* type, const Arguments& made_with, const Arguments& given) {
    if (given.positional.size() != 1 || !given.keywords.empty())
        tracer.raise(PyExc_TypeError, std::string(std::string_view(type->tp_name).substr(9)) +
                                          " expected 1 argument, got " + std::to_string(given.positional.size()));
    Value* object = given.positional[0];
    if (type == item_getter_class()) return tracer.start(get_items(tracer, made_with.positional, object));
    if (type == attribute_getter_class()) return tracer.start(get_paths(tracer, made_with.positional, object));
    Arguments rest = made_with;
    rest.positional.erase(rest.positional.begin());
    return tracer.start(call_by_name(tracer, object, made_with.positional[0]->object(), rest));
}

Outcome GetterValue::call(Tracer& tracer, const Arguments& given) {
    return apply(tracer, class_, arguments, given);
}

/// The constructor arguments of an outside getter, read from its pickled form.
Arguments arguments_of(Tracer& tracer, ObjectValue* getter) {
    if (getter->source != nullptr) tracer.guard({GuardKind::Identity, getter->source, getter->outside});
    Ref<> reduced = checked(PyObject_CallMethod(getter->outside, "__reduce__", nullptr));
    PyObject* parts = PyTuple_GET_ITEM(reduced.get(), 1);
    if (PyTuple_GET_ITEM(reduced.get(), 0) != reinterpret_cast<PyObject*>(Py_TYPE(getter->outside)))
        tracer.break_graph(BreakKind::UnknownObject,
                           "an operator.methodcaller with keyword arguments, created before the call, is called");
    Arguments arguments;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i)
        arguments.positional.push_back(tracer.constant(PyTuple_GET_ITEM(parts, i)));
    return arguments;
}

Outcome call_getter(Tracer& tracer, const Arguments& arguments) {
    auto* getter = arguments.positional.empty() ? nullptr : cast<ObjectValue>(arguments.positional[0]);
    if (getter == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "an operator.itemgetter, attrgetter or methodcaller is called in an unusual way");
    Arguments given = arguments;
    given.positional.erase(given.positional.begin());
    if (getter->outside == nullptr) return getter->call(tracer, given);
    return apply(tracer, getter->class_, arguments_of(tracer, getter), given);
}

Outcome make_item_getter(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.empty() || !arguments.keywords.empty())
        expect_arguments(tracer, "operator", "itemgetter", arguments, 1, 1000000);
    return tracer.make<GetterValue>(item_getter_class(), arguments);
}

Outcome make_attribute_getter(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.empty() || !arguments.keywords.empty())
        expect_arguments(tracer, "operator", "attrgetter", arguments, 1, 1000000);
    for (Value* name : arguments.positional) {
        tracer.realize(name);
        if (name->object() == nullptr || !PyUnicode_Check(name->object()))
            tracer.raise(PyExc_TypeError, "attribute name must be a string");
    }
    return tracer.make<GetterValue>(attribute_getter_class(), arguments);
}

Outcome make_method_caller(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.empty())
        tracer.raise(PyExc_TypeError, "methodcaller needs at least one argument, the method name");
    tracer.realize(arguments.positional[0]);
    PyObject* name = arguments.positional[0]->object();
    if (name == nullptr || !PyUnicode_Check(name)) tracer.raise(PyExc_TypeError, "method name must be a string");
    return tracer.make<GetterValue>(method_caller_class(), arguments);
}

}  // namespace

void register_getters(Handlers& handlers) {
    handlers.add("operator", "itemgetter", make_item_getter);
    handlers.add("operator", "attrgetter", make_attribute_getter);
    handlers.add("operator", "methodcaller", make_method_caller);
    for (PyTypeObject* type : {item_getter_class(), attribute_getter_class(), method_caller_class()})
        handlers.add_method(type, "__call__", call_getter);
}

}  // namespace stator
