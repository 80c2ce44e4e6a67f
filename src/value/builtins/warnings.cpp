/// `warnings.warn`: a side effect of the program, which the plan makes for the line that warned. Whether a filter turns
/// the warning into an exception is guarded.
#include <optional>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "source/query.h"
#include "value/builtins/library.h"
#include "value/builtins/logging_functions.h"
#include "value/caller.h"
#include "value/deferred_graph.h"
#include "value/effect_log.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/sequence.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

namespace {

// What a warning consists of, in a tuple: text, class, file, line, name of the module, globals of the module.
enum Part : std::uint8_t { kText, kClass, kFile, kLine, kModule, kGlobals };

PyObject* part(PyObject* warning, Part which) {
    return PyTuple_GET_ITEM(warning, which);
}

/// Whether a pattern of a filter matches; None matches everything.
bool matches(PyObject* pattern, PyObject* text) {
    if (pattern == Py_None) return true;
    return checked(PyObject_CallMethod(pattern, "match", "O", text)).get() != Py_None;
}

bool applies(PyObject* filter, PyObject* warning) {
    enum : std::uint8_t { kAction, kMessage, kCategory, kOfModule, kAtLine, kAll };
    Ref<> items = checked(PySequence_Tuple(filter));
    if (PyTuple_GET_SIZE(items.get()) != kAll) return false;
    auto item = [&](int which) { return PyTuple_GET_ITEM(items.get(), which); };
    if (checked(PyObject_IsSubclass(part(warning, kClass), item(kCategory))) != 1) return false;
    const long line = PyLong_AsLong(item(kAtLine));
    return (line == 0 || line == PyLong_AsLong(part(warning, kLine))) &&
           matches(item(kMessage), part(warning, kText)) && matches(item(kOfModule), part(warning, kModule));
}

/// Whether showing a warning runs code of the program, which may raise an exception.
bool is_shown_by_program(PyObject* module) {
    Ref<> shown = checked(PyObject_GetAttrString(module, "showwarning"));
    if (shown.get() != checked(PyObject_GetAttrString(module, "_showwarning_orig")).get()) return true;
    Ref<> implementation = checked(PyObject_GetAttrString(module, "_showwarnmsg_impl"));
    // `catch_warnings(record=True)` puts `list.append` in its place.
    if (PyCFunction_Check(implementation.get())) return false;
    return !PyFunction_Check(implementation.get()) ||
           PyFunction_GET_GLOBALS(implementation.get()) != PyModule_GetDict(module);
}

/// Whether issuing the warning now may raise an exception: `warnings.filters` turn it into one, or code of the program
/// shows it.
PyObject* is_error(PyObject*, PyObject* warning) {
    try {
        Ref<> module = checked(PyImport_ImportModule("warnings"));
        if (is_shown_by_program(module.get())) Py_RETURN_TRUE;
        Ref<> filters = checked(PySequence_Tuple(checked(PyObject_GetAttrString(module.get(), "filters")).get()));
        Ref<> action = checked(PyObject_GetAttrString(module.get(), "defaultaction"));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(filters.get()); ++i) {
            PyObject* filter = PyTuple_GET_ITEM(filters.get(), i);
            if (!applies(filter, warning)) continue;
            action = checked(PySequence_GetItem(filter, 0));
            break;
        }
        return PyBool_FromLong(PyUnicode_Check(action.get()) && utf8(action) == "error");
    } catch (const PythonError&) {
        // Python raises the error itself.
        PyErr_Clear();
        Py_RETURN_TRUE;
    }
}

PyObject* issue(PyObject*, PyObject* warning) {
    PyObject* globals = part(warning, kGlobals);
    PyObject* registry = PyDict_GetItemWithError(globals, interned("__warningregistry__"));
    if (registry == nullptr) {
        if (PyErr_Occurred() != nullptr) return nullptr;
        Ref<> made = Ref<>::steal(PyDict_New());
        if (!made || PyDict_SetItem(globals, interned("__warningregistry__"), made.get()) < 0) return nullptr;
        registry = made.get();  // held by the globals
    }
    const auto line = static_cast<int>(PyLong_AsLong(part(warning, kLine)));
    Ref<> held = Ref<>::share(registry);
    if (PyErr_WarnExplicitObject(part(warning, kClass), part(warning, kText), part(warning, kFile), line,
                                 part(warning, kModule), held.get()) < 0)
        return nullptr;
    Py_RETURN_NONE;
}

PyObject* issuing_function() {
    static PyMethodDef definition{"issue_warning", issue, METH_O, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    return function;
}

PyObject* asking_function() {
    static PyMethodDef definition{"is_error", is_error, METH_O, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    return function;
}

/// The warning in the log of side effects.
struct WarningValue final : Value {
    explicit WarningValue(PyObject* warning) : Value(Kind::Context), warning(warning) {}
    PyObject* warning;

    PyTypeObject* type() const override { return &PyTuple_Type; }
    int rebuild(PlanBuilder& plan) override { return plan.constant(warning); }
    std::string print() const override { return "a warning: " + std::string(utf8(part(warning, kText))); }
};

[[noreturn]] void leave_to_python(Tracer& tracer, const char* why = "a warning is issued") {
    tracer.break_graph(BreakKind::InputOutput, why);
}

/// The text of a warning. An instance of its class is left to Python: it may have attributes and a text of its own.
Ref<> text_of(Tracer& tracer, Value* message) {
    tracer.realize(message);
    Ref<> text = message->as_constant(tracer);
    if (!text || !PyUnicode_CheckExact(text.get())) leave_to_python(tracer);
    return text;
}

PyTypeObject* category_of(Tracer& tracer, Value* given) {
    static PyObject* const warning = imported("builtins", "Warning");
    if (given != nullptr) tracer.realize(given);
    if (given == nullptr || given->object() == Py_None) return reinterpret_cast<PyTypeObject*>(PyExc_UserWarning);
    auto* type = cast<ClassValue>(given);
    if (type == nullptr || PyObject_IsSubclass(type->object(), warning) != 1) leave_to_python(tracer);
    return type->held;
}

/// Creating an instance of another class, or asking for its text, would run code of the program.
bool is_plain_warning(PyTypeObject* type) {
    auto* plain = reinterpret_cast<PyTypeObject*>(PyExc_Warning);
    return type->tp_new == plain->tp_new && type->tp_init == plain->tp_init && type->tp_str == plain->tp_str;
}

// --- filters that the program changes in the captured region
// ----------------------------------------------------------

Value* module_of_warnings(Tracer& tracer) {
    static PyObject* const module = checked(PyImport_ImportModule("warnings")).release();
    return tracer.outside(tracer.provenance().pinned(module), module);
}

/// Whether the program has changed the filters. The plan changes the real ones at the end.
bool are_filters_changed(Tracer& tracer) {
    return tracer.effects().has_mutated(module_of_warnings(tracer));
}

/// The class of a warning: of the message, if that is an instance, else the argument. Null if it is not known.
PyTypeObject* class_of_warning(Tracer& tracer, Value* message, Value* category) {
    auto* warning = reinterpret_cast<PyTypeObject*>(PyExc_Warning);
    tracer.realize(message);
    if (PyType_IsSubtype(message->type(), warning) != 0) return message->type();
    if (message->kind != Kind::Constant || !PyUnicode_Check(message->object())) return nullptr;
    if (category != nullptr) tracer.realize(category);
    if (category == nullptr || category->object() == Py_None) return reinterpret_cast<PyTypeObject*>(PyExc_UserWarning);
    auto* type = cast<ClassValue>(category);
    return type != nullptr && PyType_IsSubtype(type->held, warning) != 0 ? type->held : nullptr;
}

/// Whether the first filter that a warning of this class meets ignores it, whatever it says and wherever it comes from.
/// Such a warning has no effect.
bool is_ignored(Tracer& tracer, PyTypeObject* category) {
    Outcome found = operations::get_attribute(tracer, module_of_warnings(tracer), interned("filters"));
    auto* filters = found.is_pending() ? nullptr : cast<ListValue>(found.value());
    if (filters == nullptr) return false;
    tracer.realize(filters);
    for (Value* item : filters->all(tracer)) {
        auto* parts = cast<TupleValue>(item);
        if (parts == nullptr) return false;
        tracer.realize(parts);
        std::vector<Value*> all = parts->all(tracer);
        if (all.size() != 5) return false;
        for (Value* part : all) tracer.realize(part);
        auto* type = cast<ClassValue>(all[2]);
        if (type == nullptr) return false;
        if (PyType_IsSubtype(category, type->held) == 0) continue;
        const bool is_of_all = all[1]->object() == Py_None && all[3]->object() == Py_None &&
                               all[4]->object() != nullptr && PyLong_CheckExact(all[4]->object()) &&
                               PyObject_IsTrue(all[4]->object()) == 0;
        PyObject* action = all[0]->object();
        return is_of_all && action != nullptr && PyUnicode_Check(action) &&
               PyUnicode_CompareWithASCIIString(action, "ignore") == 0;
    }
    return false;
}

/// `warnings._filters_mutated()` for plans, which gives the module.
PyObject* mutate_filters(PyObject*, PyObject*) {
    static PyObject* const function = imported("_warnings", "_filters_mutated");
    return PyObject_CallNoArgs(function);
}

/// The filters themselves are an attribute of the module, and a list.
Outcome filters_mutated(Tracer& tracer, const Arguments& arguments) {
    static PyMethodDef definition{"filters_mutated", mutate_filters, METH_O, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    bind_builtin(tracer, "_filters_mutated", arguments, {}, 0, 0);
    tracer.effects().log({PlanOp::Call, {module_of_warnings(tracer)}, function});
    return tracer.none();
}

// --- handlers
// ---------------------------------------------------------------------------------------------------------

Outcome warns(Tracer& tracer, const Arguments& arguments) {
    static constexpr std::size_t kMost = 3;
    static PyObject* const warn = imported("warnings", "warn");
    if (Value* done = LoggingFunctions().call(tracer, warn, arguments)) return done;
    for (const Keyword& keyword : arguments.keywords)
        if (utf8(keyword.name) != "category" && utf8(keyword.name) != "stacklevel" && utf8(keyword.name) != "message")
            leave_to_python(tracer);
    if (arguments.positional.size() > kMost || tracer.deferred_graphs().is_open()) leave_to_python(tracer);
    auto given = [&](std::size_t place, const char* name) {
        return arguments.positional.size() > place ? arguments.positional[place] : arguments.keyword(name);
    };
    Value *message = given(0, "message"), *level = given(2, "stacklevel");
    if (message == nullptr) leave_to_python(tracer);
    if (are_filters_changed(tracer)) {
        PyTypeObject* type = class_of_warning(tracer, message, given(1, "category"));
        if (type != nullptr && is_ignored(tracer, type)) return tracer.none();
        leave_to_python(tracer, "a warning is issued after the filters of warnings have changed");
    }
    Ref<> text = text_of(tracer, message);
    PyTypeObject* category = category_of(tracer, given(1, "category"));
    Ref<> depth = level == nullptr ? checked(PyLong_FromLong(1)) : level->as_constant(tracer);
    if (!depth || !PyLong_CheckExact(depth.get()) || !is_plain_warning(category)) leave_to_python(tracer);
    const long levels = PyLong_AsLong(depth.get());
    PyErr_Clear();
    const std::optional<Caller> caller = caller_of(tracer, levels);
    if (!caller && levels > 1) leave_to_python(tracer, "a warning is issued for the line of a caller (stacklevel)");
    if (!caller) leave_to_python(tracer);
    PyObject* module = PyDict_GetItemWithError(caller->globals, interned("__name__"));
    if (module == nullptr || !PyUnicode_Check(module)) leave_to_python(tracer);
    PyObject* warning = tracer.keep(checked(Py_BuildValue("(OOOiOO)", text.get(), category, caller->code->co_filename,
                                                          caller->line, module, caller->globals)));
    Answer is_fatal = ask(tracer.provenance(), asking_function(), warning);
    tracer.realize(tracer.outside(is_fatal.source, is_fatal.object.get()));
    if (is_fatal.object.get() == Py_True)
        leave_to_python(tracer, "a warning is an exception, or shown by a function of the program");
    tracer.effects().log({PlanOp::Call, {tracer.make<WarningValue>(warning)}, issuing_function()});
    return tracer.none();
}

Outcome warns_explicitly(Tracer& tracer, const Arguments&) {
    leave_to_python(tracer);
}

}  // namespace

void register_warnings(Handlers& handlers) {
    handlers.add("warnings", "warn", warns);
    handlers.add("warnings", "warn_explicit", warns_explicitly);
    handlers.add("_warnings", "_filters_mutated", filters_mutated);
}

}  // namespace stator
