/// Builtins about objects: getattr, type, super, methods of object, partial.
#include "cpython/objects.h"
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/builtins/library.h"
#include "value/builtins/registry.h"
#include "value/kinds/address.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/exception.h"
#include "value/kinds/function.h"
#include "value/kinds/partial.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/kinds/undoable.h"
#include "value/kinds/weak.h"
#include "value/protocol/attributes.h"
#include "value/protocol/keys.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

namespace {

Arguments without_first(const Arguments& arguments) {
    return {{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
}

// --- classes
// -----------------------------------------------------------------------------------------------------------

Outcome class_type(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() != 1) return make_class_of(tracer, arguments);
    symbolic::realize_class(tracer, arguments.positional[0]);
    return tracer.constant(reinterpret_cast<PyObject*>(arguments.positional[0]->type()));
}

Outcome type_call(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "type.__call__ is called on an object that is not a class");
    return construct_instance(tracer, type, without_first(arguments));
}

/// `SimpleNamespace.__init__(self, **attributes)`
Outcome fill_namespace(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 1)
        tracer.break_graph(BreakKind::UnknownFunction, "SimpleNamespace is called with positional arguments");
    for (const Keyword& keyword : arguments.keywords)
        arguments.positional[0]->set_own_attribute(tracer, keyword.name, keyword.value);
    return tracer.none();
}

Outcome class_super(Tracer& tracer, const Arguments& arguments) {
    Value* type = arguments.positional.empty() ? tracer.class_cell_of_caller() : arguments.positional[0];
    tracer.realize(type);
    auto* start = cast<ClassValue>(type);
    if (start == nullptr) refuse_arguments(tracer, nullptr, "super", arguments);
    Value* self = arguments.positional.size() < 2 ? nullptr : arguments.positional[1];
    if (arguments.positional.empty()) self = tracer.first_argument_of_caller();
    if (self == nullptr) tracer.break_graph(BreakKind::UnknownObject, "an unbound super() object is created");
    tracer.realize(self);
    auto* self_class = cast<ClassValue>(self);
    if (!PyType_IsSubtype(self->type(), start->held) &&
        (self_class == nullptr || !PyType_IsSubtype(self_class->held, start->held)))
        refuse_arguments(tracer, nullptr, "super", arguments);
    return tracer.make<SuperValue>(start->held, self);
}

// --- attributes by name
// ------------------------------------------------------------------------------------------------

PyObject* attribute_name(Tracer& tracer, Value* value) {
    tracer.realize(value);
    refuse_own_hash(tracer, value);
    value = unwrapped(tracer, value);
    Ref<> name = value->as_constant(tracer);
    if (!name || !PyUnicode_Check(name.get()))
        raise_type_error(tracer, "attribute name must be string, not ", value, "");
    PyObject* owned = name.release();
    PyUnicode_InternInPlace(&owned);
    return tracer.keep(Ref<>::steal(owned));
}

Outcome builtin_getattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "getattr", arguments, {"object", "name", "default"}, 2, 3);
    PyObject* name = attribute_name(tracer, bound[1]);
    if (bound[2] == nullptr) return operations::get_attribute(tracer, bound[0], name);
    return operations::get_attribute_or(tracer, bound[0], name, bound[2]);
}

Task has_attribute(Tracer& tracer, Value* object, PyObject* name) {
    Value* found = co_await operations::get_attribute_or(tracer, object, name, nullptr);
    co_return tracer.boolean(found != nullptr);
}

Outcome builtin_hasattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "hasattr", arguments, {"obj", "name"}, 2, 2);
    return tracer.start(has_attribute(tracer, bound[0], attribute_name(tracer, bound[1])));
}

Outcome builtin_setattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "setattr", arguments, {"obj", "name", "value"}, 3, 3);
    return operations::set_attribute(tracer, bound[0], attribute_name(tracer, bound[1]), bound[2]);
}

Outcome builtin_delattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "delattr", arguments, {"obj", "name"}, 2, 2);
    return operations::delete_attribute(tracer, bound[0], attribute_name(tracer, bound[1]));
}

Outcome builtin_callable(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "callable", arguments, {"obj"}, 1, 1);
    symbolic::realize_class(tracer, bound[0]);
    return tracer.boolean(has_special_method(tracer, bound[0]->type(), "__call__"));
}

/// A number for outside objects that guards can tell from others at no cost. An object created in the trace has no
/// address yet, and one of a container would need a capture for each.
Outcome builtin_id(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "id", arguments, {"obj"}, 1, 1);
    if (guard_weakly(tracer, bound[0]) == nullptr) return tracer.make<AddressValue>(bound[0]);
    return tracer.fresh(checked(PyLong_FromVoidPtr(bound[0]->object())));
}

Task vars_of(Tracer& tracer, Value* object) {
    Value* dict = co_await operations::get_attribute_or(tracer, object, interned("__dict__"), tracer.exhausted());
    if (dict == tracer.exhausted()) tracer.raise(PyExc_TypeError, "vars() argument must have __dict__ attribute");
    co_return dict;
}

Outcome builtin_vars(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() != 1) tracer.break_graph(BreakKind::UnknownFunction, "vars() is called without arguments");
    return tracer.start(vars_of(tracer, arguments.positional[0]));
}

Outcome builtin_globals(Tracer& tracer, const Arguments&) {
    PyObject* globals = tracer.running_function()->globals;
    return tracer.outside(tracer.provenance().pinned(globals), globals);
}

// --- object's own methods
// ----------------------------------------------------------------------------------------------

Outcome object_init(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() > 1) {
        tracer.realize(arguments.positional.at(0));
        PyTypeObject* type = arguments.positional[0]->type();
        const char* wanted = "__init__() takes exactly one argument (the instance to initialize)";
        if (type->tp_init != PyBaseObject_Type.tp_init) tracer.raise(PyExc_TypeError, std::string("object.") + wanted);
        if (type->tp_new == PyBaseObject_Type.tp_new)
            tracer.raise(PyExc_TypeError, std::string(type->tp_name) + "." + wanted);
    }
    return tracer.none();
}

Outcome object_new(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr) refuse_arguments(tracer, nullptr, "object.__new__", arguments);
    PyTypeObject* base = type->held;
    if (base->tp_new != PyBaseObject_Type.tp_new && (base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0)
        tracer.break_graph(BreakKind::UnknownFunction, "object.__new__ is called for a class written in C");
    if (arguments.count() > 1) {
        if (base->tp_new != PyBaseObject_Type.tp_new)
            tracer.raise(PyExc_TypeError, "object.__new__() takes exactly one argument (the type to instantiate)");
        if (base->tp_init == PyBaseObject_Type.tp_init)
            tracer.raise(PyExc_TypeError, std::string(base->tp_name) + "() takes no arguments");
    }
    return tracer.make<ObjectValue>(base);
}

/// `dict.__new__(cls, ...)`, and those of list and set: an empty instance, whatever else the arguments are.
template <class Container, PyTypeObject* base>
Outcome container_new(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr || type->held->tp_new == nullptr || !PyType_IsSubtype(type->held, base) ||
        has_special_method(tracer, type->held, "__del__"))
        tracer.break_graph(BreakKind::UnknownFunction, std::string(base->tp_name) +
                                                           ".__new__ is called with something that is not one of its "
                                                           "subclasses, or with one that defines __del__");
    return tracer.make<Container>(type->held);
}

ExceptionValue* exception_of(Tracer& tracer, const Arguments& arguments) {
    auto* exception = arguments.positional.empty() ? nullptr : cast<ExceptionValue>(arguments.positional[0]);
    if (exception == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "a method is called on an exception object that existed before the call");
    return exception;
}

Outcome exception_init(Tracer& tracer, const Arguments& arguments) {
    ExceptionValue* exception = exception_of(tracer, arguments);
    initialise_exception(tracer, exception, without_first(arguments));
    return tracer.none();
}

Outcome exception_new(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "BaseException.__new__ is called with something that is not a class");
    return make_exception(tracer, type->held, {arguments.positional.begin() + 1, arguments.positional.end()});
}

Outcome exception_to_str(Tracer& tracer, const Arguments& arguments) {
    return exception_str(tracer, exception_of(tracer, arguments));
}

Outcome exception_to_repr(Tracer& tracer, const Arguments& arguments) {
    return exception_repr(tracer, exception_of(tracer, arguments));
}

Outcome exception_with_traceback(Tracer& tracer, const Arguments& arguments) {
    ExceptionValue* exception = exception_of(tracer, arguments);
    auto bound = bind_builtin(tracer, "with_traceback", arguments, {"self", "tb"}, 2, 2);
    exception->set_kept_attribute(tracer, interned("__traceback__"), bound[1]);
    return exception;
}

Outcome exception_add_note(Tracer& tracer, const Arguments& arguments) {
    ExceptionValue* exception = exception_of(tracer, arguments);
    auto bound = bind_builtin(tracer, "add_note", arguments, {"self", "note"}, 2, 2);
    tracer.realize(bound[1]);
    if (bound[1]->object() == nullptr || !PyUnicode_Check(bound[1]->object()))
        tracer.raise(PyExc_TypeError, "note must be a str, not '" + std::string(bound[1]->type()->tp_name) + "'");
    Value* notes = exception->own_attribute(tracer, interned("__notes__"));
    if (notes == nullptr) {
        notes = make_list(tracer, {});
        exception->set_own_attribute(tracer, interned("__notes__"), notes);
    }
    auto* list = cast<ListValue>(notes);
    if (list == nullptr) tracer.raise(PyExc_TypeError, "Cannot add note: __notes__ is not a list");
    list->append(tracer, bound[1]);
    return tracer.none();
}

/// `traceback.clear_frames(tb)`, which `assertRaises` calls. The frames of a traceback that the trace made reference no
/// local variables.
Outcome clear_frames(Tracer& tracer, const Arguments& arguments) {
    Value* traceback = bind_builtin(tracer, "clear_frames", arguments, {"tb"}, 1)[0];
    tracer.realize(traceback);
    if (traceback->object() != Py_None && (traceback->type() != &PyTraceBack_Type || traceback->source != nullptr))
        tracer.break_graph(BreakKind::UnknownObject, "the frames of a traceback are cleared");
    return tracer.none();
}

Outcome sys_exc_info(Tracer& tracer, const Arguments&) {
    Value* exception = tracer.exception_in_handling();
    if (exception == nullptr) return make_tuple(tracer, {tracer.none(), tracer.none(), tracer.none()});
    tracer.realize(exception);
    Value* type = tracer.constant(reinterpret_cast<PyObject*>(exception->type()));
    return make_tuple(tracer, {type, exception, traceback_of(tracer, exception)});
}

Outcome sys_exception(Tracer& tracer, const Arguments&) {
    Value* exception = tracer.exception_in_handling();
    return exception == nullptr ? tracer.none() : exception;
}

/// Every C exception class has these methods in its own dict or in that of a base.
void register_exceptions(Handlers& handlers) {
    PyObject *name = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(PyEval_GetBuiltins(), &position, &name, &value)) {
        if (!PyExceptionClass_Check(value)) continue;
        auto* type = reinterpret_cast<PyTypeObject*>(value);
        if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup))) continue;
        handlers.add_method(type, "__init__", exception_init);
        handlers.add_method(type, "__str__", exception_to_str);
        handlers.add_method(type, "__repr__", exception_to_repr);
        handlers.add_method(type, "with_traceback", exception_with_traceback);
        handlers.add_method(type, "add_note", exception_add_note);
        // Classes with another `__new__` are instantiated by `type.__call__`.
        if (type->tp_new == reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_new)
            handlers.add_method(type, "__new__", exception_new);
    }
}

/// `int.__new__(cls, ...)` and the like.
Outcome scalar_new(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr || type->held == &PyBool_Type)
        tracer.break_graph(BreakKind::UnknownObject,
                           "__new__ of a number or string class is called with an unsupported class");
    if (scalar_base(type->held) == nullptr) return operations::call(tracer, type, without_first(arguments));
    if (Value* made = make_scalar(tracer, type->held, without_first(arguments)); made != nullptr) return made;
    tracer.break_graph(BreakKind::UnknownFunction,
                       "class " + type_name(type->held) + " is called with arguments that are not constants");
}

Outcome object_setattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__setattr__", arguments, {"self", "name", "value"}, 3, 3);
    tracer.realize(bound[0]);
    return generic_set_attribute(tracer, bound[0], attribute_name(tracer, bound[1]), bound[2]);
}

Outcome type_setattr(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.empty() || cast<ClassValue>(arguments.positional[0]) == nullptr)
        raise_wrong_receiver(tracer, &PyType_Type, "__setattr__", arguments);
    return object_setattr(tracer, arguments);
}

Outcome object_delattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__delattr__", arguments, {"self", "name"}, 2, 2);
    tracer.realize(bound[0]);
    return generic_delete_attribute(tracer, bound[0], attribute_name(tracer, bound[1]));
}

Outcome type_delattr(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.empty() || cast<ClassValue>(arguments.positional[0]) == nullptr)
        raise_wrong_receiver(tracer, &PyType_Type, "__delattr__", arguments);
    return object_delattr(tracer, arguments);
}

Outcome object_getattribute(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__getattribute__", arguments, {"self", "name"}, 2, 2);
    Ref<> name = Ref<>::share(attribute_name(tracer, bound[1]));
    Value* self = bound[0];
    tracer.realize(self);
    if (self->kind != Kind::Object) return self->get_attribute(tracer, name.get());
    Outcome answer = plain_get_attribute(tracer, self, name.get());
    if (!answer.is_pending() && answer.value() == nullptr) raise_no_attribute(tracer, self, name.get());
    return answer;
}

Outcome object_eq(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 2 || !arguments.keywords.empty())
        tracer.break_graph(BreakKind::UnknownFunction,
                           "object.__eq__ is called with arguments that Stator has no model of");
    if (operations::same_object(tracer, arguments.positional.at(0), arguments.positional.at(1)))
        return tracer.boolean(true);
    return tracer.constant(Py_NotImplemented);
}

Task invert_equality(Tracer& tracer, Value* equals, Value* self, Value* other) {
    Value* answer = co_await operations::call(tracer, equals, Arguments::of(self, other));
    tracer.realize(answer);
    if (answer->object() == Py_NotImplemented) co_return answer;
    Value* truth = co_await operations::truth(tracer, answer);
    co_return tracer.boolean(truth->object() != Py_True);
}

/// `object.__ne__`: the opposite of the `__eq__` of the class.
Outcome object_ne(Tracer& tracer, const Arguments& arguments) {
    Value* self = arguments.positional.size() == 2 ? arguments.positional[0] : nullptr;
    if (self == nullptr || !arguments.keywords.empty() || as_object(self) == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "object.__ne__ is called with arguments that Stator has no model of");
    tracer.realize(self);
    if (Value* equals = operations::user_method(tracer, self, "__eq__"))
        return tracer.start(invert_equality(tracer, equals, self, arguments.positional[1]));
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(self->type(), interned("__eq__"), &owner);
    if (owner != &PyBaseObject_Type)
        tracer.break_graph(BreakKind::UnknownFunction, "object.__ne__ is called on an object whose __eq__ is C code");
    if (operations::same_object(tracer, self, arguments.positional[1])) return tracer.boolean(false);
    return tracer.constant(Py_NotImplemented);
}

Outcome object_init_subclass(Tracer& tracer, const Arguments&) {
    return tracer.none();
}

// --- functools
// ---------------------------------------------------------------------------------------------------------

Outcome partial_class_call(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const type = imported("functools", "partial");
    return make_partial(tracer, reinterpret_cast<PyTypeObject*>(type), arguments);
}

Outcome partial_new(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "functools.partial.__new__ is called with something that is not a class");
    return make_partial(tracer, type->held, without_first(arguments));
}

Outcome partial_call(Tracer& tracer, const Arguments& arguments) {
    return call_partial(tracer, arguments.positional[0], without_first(arguments));
}

/// `functools.cached_property` without its lock, which no one else can hold here.
Task read_cached_property(Tracer& tracer, Value* property, Value* instance) {
    Value* name = co_await operations::get_attribute(tracer, property, interned("attrname"));
    Value* function = co_await operations::get_attribute(tracer, property, interned("func"));
    tracer.realize(name);
    if (name->object() == nullptr || !PyUnicode_Check(name->object()))
        tracer.raise(PyExc_TypeError, "Cannot use cached_property instance without calling __set_name__ on it.");
    if (Value* cached = instance->own_attribute(tracer, name->object()); cached != nullptr) co_return cached;
    Value* value = co_await operations::call(tracer, function, Arguments::of(instance));
    instance->set_own_attribute(tracer, name->object(), value);
    co_return value;
}

Outcome cached_property_get(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__get__", arguments, {"self", "instance", "owner"}, 2);
    tracer.realize(bound[1]);
    if (bound[1]->object() == Py_None) return bound[0];
    return tracer.start(read_cached_property(tracer, bound[0], bound[1]));
}

// --- functions and methods
// ---------------------------------------------------------------------------------------------

Outcome function_get(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__get__", arguments, {"self", "instance", "owner"}, 2, 3);
    tracer.realize(bound[1]);
    if (bound[1]->object() == Py_None) return bound[0];
    return tracer.make<MethodValue>(bound[0], bound[1]);
}

Outcome make_method(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 2 || !arguments.keywords.empty())
        tracer.raise(PyExc_TypeError, "method expected 2 arguments, got " + std::to_string(arguments.count()));
    Value *function = arguments.positional[0], *self = arguments.positional[1];
    tracer.realize(function);
    tracer.realize(self);
    if (!has_special_method(tracer, function->type(), "__call__"))
        tracer.raise(PyExc_TypeError, "first argument must be callable");
    if (self->object() == Py_None) tracer.raise(PyExc_TypeError, "instance must not be None");
    if (function->kind == Kind::Builtin)
        tracer.break_graph(BreakKind::UnknownFunction, "types.MethodType is called with a C function");
    return tracer.make<MethodValue>(function, self);
}

}  // namespace

void register_objects(Handlers& handlers) {
    const char* builtins = "builtins";
    handlers.add(builtins, "type", class_type);
    handlers.add_method(imported_class("types", "SimpleNamespace"), "__init__", fill_namespace);
    handlers.add(builtins, "super", class_super);
    handlers.add(builtins, "getattr", builtin_getattr);
    handlers.add(builtins, "hasattr", builtin_hasattr);
    handlers.add(builtins, "setattr", builtin_setattr);
    handlers.add(builtins, "delattr", builtin_delattr);
    handlers.add(builtins, "callable", builtin_callable);
    handlers.add(builtins, "vars", builtin_vars);
    handlers.add(builtins, "id", builtin_id);
    handlers.add(builtins, "globals", builtin_globals);

    handlers.add_method(&PyType_Type, "__call__", type_call);
    handlers.add_method(&PyBaseObject_Type, "__init__", object_init);
    handlers.add_method(&PyBaseObject_Type, "__new__", object_new);
    handlers.add_method(&PyBaseObject_Type, "__setattr__", object_setattr);
    handlers.add_method(&PyType_Type, "__setattr__", type_setattr);
    handlers.add_method(&PyType_Type, "__delattr__", type_delattr);
    handlers.add_method(&PyBaseObject_Type, "__delattr__", object_delattr);
    handlers.add_method(&PyBaseObject_Type, "__getattribute__", object_getattribute);
    handlers.add_method(&PyModule_Type, "__getattribute__", object_getattribute);
    handlers.add_method(&PyBaseObject_Type, "__eq__", object_eq);
    handlers.add_method(&PyBaseObject_Type, "__ne__", object_ne);
    handlers.add_method(&PyBaseObject_Type, "__init_subclass__", object_init_subclass);
    register_exceptions(handlers);
    handlers.add_method(&PyDict_Type, "__new__", container_new<DictValue, &PyDict_Type>);
    handlers.add_method(&PyList_Type, "__new__", container_new<ListValue, &PyList_Type>);
    handlers.add_method(&PySet_Type, "__new__", container_new<SetValue, &PySet_Type>);
    handlers.add("traceback", "clear_frames", clear_frames);
    handlers.add("sys", "exc_info", sys_exc_info);
    handlers.add("sys", "exception", sys_exception);
    for (PyTypeObject* type : {&PyLong_Type, &PyFloat_Type, &PyUnicode_Type, &PyBytes_Type, &PyComplex_Type})
        handlers.add_method(type, "__new__", scalar_new);

    handlers.add("functools", "partial", partial_class_call);
    PyTypeObject* partial = imported_class("functools", "partial");
    handlers.add_method(partial, "__call__", partial_call);
    handlers.add_method(partial, "__new__", partial_new);
    handlers.add_method(imported_class("functools", "cached_property"), "__get__", cached_property_get);
    handlers.add_method(&PyFunction_Type, "__get__", function_get);
    handlers.add_pure(PyDict_GetItemString(cpython::class_dict(&PyCode_Type), "replace"));
    handlers.add("types", "MethodType", make_method);
}

}  // namespace stator
