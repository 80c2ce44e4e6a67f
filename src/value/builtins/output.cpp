/// Printing, logging, warnings and files.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "value/builtins/logging_functions.h"
#include "value/builtins/registry.h"
#include "value/effect_log.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/sequence.h"
#include "value/protocol/operations.h"

namespace stator {

namespace {

Outcome prints(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const print = imported("builtins", "print");
    if (Value* done = LoggingFunctions().call(tracer, print, arguments)) return done;
    tracer.break_graph(BreakKind::InputOutput, "print() is called");
}

Outcome does_io(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::InputOutput, "a file, the console or the debugger is used");
}

Outcome logs(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::InputOutput, "a log record is written");
}

// --- warnings -----------------------------------------------------------------------------------------------------

Value* module_of_warnings(Tracer& tracer) {
    static PyObject* const module = checked(PyImport_ImportModule("warnings")).release();
    return tracer.outside(tracer.provenance().pinned(module), module);
}

/// The class of a warning: of the message, if that is an instance, else the argument. Null if it is not known.
PyTypeObject* category_of(Tracer& tracer, Value* message, Value* category) {
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

Outcome warns(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const warn = imported("warnings", "warn");
    if (Value* done = LoggingFunctions().call(tracer, warn, arguments)) return done;
    Value* category = arguments.positional.size() > 1 ? arguments.positional[1] : arguments.keyword("category");
    Value* message = arguments.positional.empty() ? arguments.keyword("message") : arguments.positional[0];
    PyTypeObject* type = message == nullptr ? nullptr : category_of(tracer, message, category);
    if (type != nullptr && is_ignored(tracer, type)) return tracer.none();
    tracer.break_graph(BreakKind::InputOutput, "a warning is issued");
}

Outcome warns_explicitly(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::InputOutput, "a warning is issued");
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

}  // namespace

void register_output(Handlers& handlers) {
    const char* builtins = "builtins";
    handlers.add(builtins, "print", prints);
    for (const char* name : {"open", "input", "breakpoint"}) handlers.add(builtins, name, does_io);
    handlers.add_method(imported_class("logging", "Logger"), "_log", logs);
    handlers.add("warnings", "warn", warns);
    handlers.add("warnings", "warn_explicit", warns_explicitly);
    handlers.add("_warnings", "_filters_mutated", filters_mutated);
}

}  // namespace stator
