/// Builtins about objects and classes: isinstance, getattr, type, super, object's own methods, partial, generators.
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "value/attributes.h"
#include "value/class.h"
#include "value/constant.h"
#include "value/dict.h"
#include "value/exception.h"
#include "value/function.h"
#include "value/generator.h"
#include "value/operations.h"
#include "value/registry.h"
#include "value/sequence.h"
#include "value/tracer.h"

namespace stator {

namespace {

// --- classes -----------------------------------------------------------------------------------------------------------

/// Whether a class's answer to `isinstance` is more than a look at the MRO.
PyObject* own_check(PyTypeObject* type, const char* name) {
    if (Py_TYPE(type) == &PyType_Type) return nullptr;
    PyTypeObject* owner = nullptr;
    PyObject* raw = cpython::lookup_in_mro(Py_TYPE(type), interned(name), &owner);
    return owner == &PyType_Type ? nullptr : raw;
}

/// Metaclasses of the standard library and of PyTorch may be asked for real: they look at classes only.
bool may_ask_for_real(PyObject* check) {
    if (!PyFunction_Check(check)) return true;
    PyObject* module = reinterpret_cast<PyFunctionObject*>(check)->func_module;
    std::string_view name = module == nullptr ? "" : utf8(module);
    return name == "abc" || name == "typing" || name == "enum" || name.starts_with("torch.");
}

/// One class of an `isinstance` or `issubclass`: 1, 0, or -1 if the program's own check has to be called.
int is_subclass_of(Tracer& tracer, PyTypeObject* type, PyTypeObject* of, const char* check_name) {
    if (PyType_IsSubtype(type, of)) return 1;
    PyObject* check = own_check(of, check_name);
    if (check == nullptr) return 0;
    if (!may_ask_for_real(check)) return -1;
    int answer = PyObject_IsSubclass(reinterpret_cast<PyObject*>(type), reinterpret_cast<PyObject*>(of));
    if (answer < 0) tracer.raise_from_python();
    return answer;
}

Task check_class(Tracer& tracer, Value* subject, Value* classes, bool of_instance) {
    tracer.realize(subject);
    tracer.realize(classes);
    const char* function = of_instance ? "isinstance" : "issubclass";
    const char* check_name = of_instance ? "__instancecheck__" : "__subclasscheck__";
    if (auto* tuple = cast<TupleValue>(classes)) {
        for (std::size_t i = 0; i < tuple->items.size(); ++i) {
            Value* answer = co_await tracer.start(check_class(tracer, subject, tuple->item(tracer, i), of_instance));
            if (answer->object() == Py_True) co_return answer;
        }
        co_return tracer.boolean(false);
    }
    auto* subject_class = cast<ClassValue>(subject);
    if (!of_instance && subject_class == nullptr) tracer.raise(PyExc_TypeError, "issubclass() arg 1 must be a class");
    PyTypeObject* type = of_instance ? subject->type() : subject_class->held;
    auto* of = cast<ClassValue>(classes);
    if (of == nullptr) {
        // `int | str` and the like: looks at classes only.
        PyObject* real = classes->object();
        if (real == nullptr)
            tracer.raise(PyExc_TypeError, std::string(function) + "() arg 2 must be a type, a tuple of types, or a union");
        int answer = PyObject_IsSubclass(reinterpret_cast<PyObject*>(type), real);
        if (answer < 0) {
            PyErr_Clear();
            tracer.raise(PyExc_TypeError, std::string(function) + "() arg 2 must be a type, a tuple of types, or a union");
        }
        co_return tracer.boolean(answer == 1);
    }
    int answer = is_subclass_of(tracer, type, of->held, check_name);
    if (answer >= 0) co_return tracer.boolean(answer == 1);
    Value* check = class_attribute(tracer, Py_TYPE(of->held), interned(check_name));
    Value* said = co_await operations::call(tracer, check, Arguments::of(of, subject));
    co_return co_await operations::truth(tracer, said);
}

Outcome builtin_isinstance(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "isinstance", arguments, {"obj", "class_or_tuple"}, 2, 2);
    return tracer.start(check_class(tracer, bound[0], bound[1], true));
}

Outcome builtin_issubclass(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "issubclass", arguments, {"cls", "class_or_tuple"}, 2, 2);
    return tracer.start(check_class(tracer, bound[0], bound[1], false));
}

Outcome class_type(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() != 1) tracer.break_graph(BreakKind::UnknownFunction, "a class is made by calling type()");
    tracer.realize(arguments.positional[0]);
    return tracer.constant(reinterpret_cast<PyObject*>(arguments.positional[0]->type()));
}

Outcome type_call(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr) tracer.break_graph(BreakKind::UnknownObject, "type.__call__ is called on something else");
    Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
    return construct_instance(tracer, type, rest);
}

Outcome class_super(Tracer& tracer, const Arguments& arguments) {
    Value* type = arguments.positional.empty() ? tracer.class_cell_of_caller() : arguments.positional[0];
    tracer.realize(type);
    auto* start = cast<ClassValue>(type);
    if (start == nullptr) tracer.raise(PyExc_TypeError, "super() argument 1 must be a type");
    Value* self = arguments.positional.size() < 2 ? nullptr : arguments.positional[1];
    if (arguments.positional.empty()) self = tracer.first_argument_of_caller();
    if (self == nullptr) tracer.break_graph(BreakKind::UnknownObject, "an unbound super object is made");
    tracer.realize(self);
    auto* self_class = cast<ClassValue>(self);
    if (!PyType_IsSubtype(self->type(), start->held) &&
        (self_class == nullptr || !PyType_IsSubtype(self_class->held, start->held)))
        tracer.raise(PyExc_TypeError, "super(type, obj): obj must be an instance or subtype of type");
    return tracer.make<SuperValue>(start->held, self);
}

// --- attributes by name ------------------------------------------------------------------------------------------------

PyObject* attribute_name(Tracer& tracer, Value* value, const char* function) {
    Ref<> name = value->as_constant(tracer);
    if (!name || !PyUnicode_Check(name.get()))
        tracer.raise(PyExc_TypeError, std::string(function) + "(): attribute name must be string");
    PyObject* owned = name.release();
    PyUnicode_InternInPlace(&owned);
    return tracer.keep(Ref<>::steal(owned));
}

Outcome builtin_getattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "getattr", arguments, {"object", "name", "default"}, 2, 3);
    PyObject* name = attribute_name(tracer, bound[1], "getattr");
    if (bound[2] == nullptr) return operations::get_attribute(tracer, bound[0], name);
    return operations::get_attribute_or(tracer, bound[0], name, bound[2]);
}

Task has_attribute(Tracer& tracer, Value* object, PyObject* name) {
    Value* found = co_await operations::get_attribute_or(tracer, object, name, nullptr);
    co_return tracer.boolean(found != nullptr);
}

Outcome builtin_hasattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "hasattr", arguments, {"obj", "name"}, 2, 2);
    return tracer.start(has_attribute(tracer, bound[0], attribute_name(tracer, bound[1], "hasattr")));
}

Outcome builtin_setattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "setattr", arguments, {"obj", "name", "value"}, 3, 3);
    return operations::set_attribute(tracer, bound[0], attribute_name(tracer, bound[1], "setattr"), bound[2]);
}

Outcome builtin_delattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "delattr", arguments, {"obj", "name"}, 2, 2);
    return operations::delete_attribute(tracer, bound[0], attribute_name(tracer, bound[1], "delattr"));
}

Outcome builtin_callable(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "callable", arguments, {"obj"}, 1, 1);
    tracer.realize(bound[0]);
    return tracer.boolean(bound[0]->type()->tp_call != nullptr);
}

Outcome builtin_vars(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() != 1) tracer.break_graph(BreakKind::UnknownFunction, "vars() is called without arguments");
    return operations::get_attribute(tracer, arguments.positional[0], interned("__dict__"));
}

Outcome builtin_globals(Tracer& tracer, const Arguments&) {
    PyObject* globals = tracer.running_function()->globals;
    return tracer.outside(tracer.provenance().pinned(globals), globals);
}

// --- object's own methods ----------------------------------------------------------------------------------------------

Outcome object_init(Tracer& tracer, const Arguments&) {
    return tracer.none();
}

Outcome object_new(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr) tracer.raise(PyExc_TypeError, "object.__new__(X): X is not a type object");
    PyTypeObject* base = type->held;
    if (base->tp_new != PyBaseObject_Type.tp_new && (base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0)
        tracer.break_graph(BreakKind::UnknownFunction, "object.__new__ is called for a C class");
    return tracer.make<ObjectValue>(base);
}

Outcome exception_init(Tracer& tracer, const Arguments& arguments) {
    auto* exception = cast<ExceptionValue>(arguments.positional[0]);
    if (exception == nullptr) tracer.break_graph(BreakKind::UnknownObject, "an exception is initialised again");
    exception->arguments.assign(arguments.positional.begin() + 1, arguments.positional.end());
    return tracer.none();
}

Task exception_text(Tracer& tracer, ExceptionValue* exception) {
    if (exception->real != nullptr) {
        Ref<> text = Ref<>::steal(PyObject_Str(exception->real));
        if (!text) tracer.raise_from_python();
        co_return tracer.fresh(std::move(text));
    }
    if (exception->arguments.empty()) co_return tracer.string("");
    Value* str = tracer.constant(reinterpret_cast<PyObject*>(&PyUnicode_Type));
    Value* what = exception->arguments.size() == 1 ? exception->arguments[0] : make_tuple(tracer, exception->arguments);
    if (PyType_IsSubtype(exception->class_, reinterpret_cast<PyTypeObject*>(PyExc_KeyError)) &&
        exception->arguments.size() == 1) {
        static PyObject* repr = PyDict_GetItemString(PyEval_GetBuiltins(), "repr");
        co_return co_await operations::call(tracer, tracer.constant(repr), Arguments::of(what));
    }
    co_return co_await operations::call(tracer, str, Arguments::of(what));
}

Outcome exception_str(Tracer& tracer, const Arguments& arguments) {
    auto* exception = cast<ExceptionValue>(arguments.positional[0]);
    if (exception == nullptr) tracer.break_graph(BreakKind::UnknownObject, "an exception from outside is printed");
    return tracer.start(exception_text(tracer, exception));
}

Outcome exception_with_traceback(Tracer&, const Arguments& arguments) {
    return arguments.positional[0];
}

Outcome object_setattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__setattr__", arguments, {"self", "name", "value"}, 3, 3);
    tracer.realize(bound[0]);
    return generic_set_attribute(tracer, bound[0], attribute_name(tracer, bound[1], "setattr"), bound[2]);
}

Outcome object_delattr(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__delattr__", arguments, {"self", "name"}, 2, 2);
    tracer.realize(bound[0]);
    return generic_delete_attribute(tracer, bound[0], attribute_name(tracer, bound[1], "delattr"));
}

Outcome object_getattribute(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__getattribute__", arguments, {"self", "name"}, 2, 2);
    return operations::get_attribute(tracer, bound[0], attribute_name(tracer, bound[1], "getattr"));
}

Outcome object_eq(Tracer& tracer, const Arguments& arguments) {
    if (operations::same_object(tracer, arguments.positional.at(0), arguments.positional.at(1))) return tracer.boolean(true);
    return tracer.constant(Py_NotImplemented);
}

Outcome object_init_subclass(Tracer& tracer, const Arguments&) {
    return tracer.none();
}

// --- functools ---------------------------------------------------------------------------------------------------------

Outcome make_partial(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.empty())
        tracer.raise(PyExc_TypeError, "type 'partial' takes at least one argument");
    static auto* partial_class = reinterpret_cast<PyTypeObject*>(
        PyObject_GetAttrString(PyImport_ImportModule("functools"), "partial"));
    auto* partial = tracer.make<ObjectValue>(partial_class);
    auto* keywords = tracer.make<DictValue>();
    for (const Keyword& keyword : arguments.keywords)
        keywords->insert(tracer, tracer.constant(keyword.name), keyword.value);
    partial->attributes = {
        {interned("func"), arguments.positional[0]},
        {interned("args"), make_tuple(tracer, {arguments.positional.begin() + 1, arguments.positional.end()})},
        {interned("keywords"), keywords},
    };
    return partial;
}

Task call_partial(Tracer& tracer, Value* partial, Arguments given) {
    Value* function = co_await operations::get_attribute(tracer, partial, interned("func"));
    Value* first = co_await operations::get_attribute(tracer, partial, interned("args"));
    Value* named = co_await operations::get_attribute(tracer, partial, interned("keywords"));
    tracer.realize(first);
    tracer.realize(named);
    Arguments arguments;
    arguments.positional = as_sequence(first)->all(tracer);
    arguments.positional.insert(arguments.positional.end(), given.positional.begin(), given.positional.end());
    auto* keywords = cast<DictValue>(named);
    keywords->complete_now(tracer);
    for (Table::Entry* entry : keywords->table.entries()) {
        PyObject* name = entry->key->object();
        bool replaced = false;
        for (const Keyword& keyword : given.keywords) replaced = replaced || PyUnicode_Compare(keyword.name, name) == 0;
        if (!replaced) arguments.keywords.push_back({name, keywords->find(tracer, name)});
    }
    for (const Keyword& keyword : given.keywords) arguments.keywords.push_back(keyword);
    co_return co_await operations::call(tracer, function, arguments);
}

Outcome partial_call(Tracer& tracer, const Arguments& arguments) {
    Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
    return tracer.start(call_partial(tracer, arguments.positional[0], std::move(rest)));
}

/// A cached function is asked for real: what it has computed before it gives back again, the same object each time.
Outcome cached_function_call(Tracer& tracer, const Arguments& arguments) {
    Value* self = arguments.positional[0];
    Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
    if (self->object() != nullptr)
        if (Value* folded = fold(tracer, self->object(), rest); folded != nullptr) return folded;
    tracer.break_graph(BreakKind::UnknownFunction, "a function with functools.lru_cache is called on values that are not constants");
}

// --- generators --------------------------------------------------------------------------------------------------------

GeneratorValue* generator_of(Tracer& tracer, const Arguments& arguments) {
    auto* generator = cast<GeneratorValue>(arguments.positional.at(0));
    if (generator == nullptr) tracer.break_graph(BreakKind::UnknownObject, "a generator from outside is advanced");
    return generator;
}

Task generator_step(Tracer& tracer, GeneratorValue* generator, Value* sent) {
    bool was_finished = generator->finished;
    Value* item = co_await tracer.push_generator(generator, sent);
    if (item != tracer.exhausted()) co_return item;
    std::vector<Value*> parts;
    if (!was_finished && generator->returned != nullptr && generator->returned->object() != Py_None)
        parts.push_back(generator->returned);
    throw Raised{make_exception(tracer, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration), std::move(parts))};
}

Outcome generator_send(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "send", arguments, {"self", "value"}, 2, 2);
    return tracer.start(generator_step(tracer, generator_of(tracer, arguments), bound[1]));
}

Outcome generator_next(Tracer& tracer, const Arguments& arguments) {
    return tracer.start(generator_step(tracer, generator_of(tracer, arguments), tracer.none()));
}

Outcome generator_close(Tracer& tracer, const Arguments& arguments) {
    GeneratorValue* generator = generator_of(tracer, arguments);
    if (generator->started && !generator->finished)
        tracer.break_graph(BreakKind::UnknownObject, "a running generator is closed");
    generator->finished = true;
    return tracer.none();
}

Outcome prints(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::InputOutput, "print() is called");
}

Outcome does_io(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::InputOutput, "a file, the console or the debugger is used");
}

Outcome warns(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::InputOutput, "a warning is issued");
}

}  // namespace

void register_objects(Handlers& handlers) {
    const char* builtins = "builtins";
    handlers.add(builtins, "isinstance", builtin_isinstance);
    handlers.add(builtins, "issubclass", builtin_issubclass);
    handlers.add(builtins, "type", class_type);
    handlers.add(builtins, "super", class_super);
    handlers.add(builtins, "getattr", builtin_getattr);
    handlers.add(builtins, "hasattr", builtin_hasattr);
    handlers.add(builtins, "setattr", builtin_setattr);
    handlers.add(builtins, "delattr", builtin_delattr);
    handlers.add(builtins, "callable", builtin_callable);
    handlers.add(builtins, "vars", builtin_vars);
    handlers.add(builtins, "globals", builtin_globals);
    handlers.add(builtins, "print", prints);
    for (const char* name : {"open", "input", "breakpoint"}) handlers.add(builtins, name, does_io);
    handlers.add("warnings", "warn", warns);
    handlers.add("warnings", "warn_explicit", warns);

    handlers.add_method(&PyType_Type, "__call__", type_call);
    handlers.add_method(&PyBaseObject_Type, "__init__", object_init);
    handlers.add_method(&PyBaseObject_Type, "__new__", object_new);
    handlers.add_method(&PyBaseObject_Type, "__setattr__", object_setattr);
    handlers.add_method(&PyBaseObject_Type, "__delattr__", object_delattr);
    handlers.add_method(&PyBaseObject_Type, "__getattribute__", object_getattribute);
    handlers.add_method(&PyBaseObject_Type, "__eq__", object_eq);
    handlers.add_method(&PyBaseObject_Type, "__init_subclass__", object_init_subclass);
    auto* exception = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
    handlers.add_method(exception, "__init__", exception_init);
    handlers.add_method(exception, "__str__", exception_str);
    handlers.add_method(exception, "with_traceback", exception_with_traceback);
    handlers.add_method(reinterpret_cast<PyTypeObject*>(PyExc_KeyError), "__str__", exception_str);
    // Some classes name the same function once more.
    PyObject *name = nullptr, *held = nullptr;
    for (Py_ssize_t position = 0; PyDict_Next(PyEval_GetBuiltins(), &position, &name, &held);)
        if (PyExceptionClass_Check(held) && reinterpret_cast<PyTypeObject*>(held)->tp_str == exception->tp_str)
            handlers.add_method(reinterpret_cast<PyTypeObject*>(held), "__str__", exception_str);

    handlers.add("functools", "partial", make_partial);
    if (Ref<> partial = Ref<>::steal(PyObject_GetAttrString(PyImport_ImportModule("functools"), "partial")); partial)
        handlers.add_method(reinterpret_cast<PyTypeObject*>(partial.get()), "__call__", partial_call);
    if (Ref<> cached = Ref<>::steal(PyObject_GetAttrString(PyImport_ImportModule("functools"), "_lru_cache_wrapper")); cached)
        handlers.add_method(reinterpret_cast<PyTypeObject*>(cached.get()), "__call__", cached_function_call);

    handlers.add_method(&PyGen_Type, "send", generator_send);
    handlers.add_method(&PyGen_Type, "__next__", generator_next);
    handlers.add_method(&PyGen_Type, "close", generator_close);
}

}  // namespace stator
