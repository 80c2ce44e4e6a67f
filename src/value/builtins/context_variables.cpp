/// The methods of `contextvars.ContextVar`.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "effect/plan.h"
#include "source/query.h"
#include "value/builtins/config_patches.h"
#include "value/builtins/library.h"
#include "value/effect_log.h"
#include "value/kinds/context_variable.h"
#include "value/kinds/exception.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/undoable.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// A call of `set`, whose result is the token, or of `reset`. A token may be rebuilt for another side effect, before
/// its own turn: each change rebuilds the one before it first.
struct ContextChange final : ObjectValue {
    ContextChange(PyTypeObject* type, ContextVariableValue* variable, Value* operand, PyObject* method)
        : ObjectValue(type),
          variable(variable),
          operand(operand),
          method(method),
          is_old_known(variable->is_known),
          old(variable->current),
          previous(variable->last_change) {}

    ContextVariableValue* const variable;
    Value* const operand;
    PyObject* const method;
    const bool is_old_known;  // false if the old value is the one from before the trace, and nobody has read it
    Value* const old;
    Value* const previous;
    bool is_used = false;

    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override {
        if (name.get() == interned("var")) return variable;
        if (name.get() == interned("old_value"))
            tracer.break_graph(BreakKind::UnknownObject, "the old value of a ContextVar is read from a token");
        return ObjectValue::get_attribute(tracer, name);
    }
    int rebuild(PlanBuilder& plan) override {
        if (previous != nullptr) previous->rebuild(plan);
        return rebuild_by_call(plan, this, method, std::vector<Value*>{variable, operand});
    }
    std::string print() const override { return "a change of " + variable->print(); }
};

/// The value without the default of the variable; raises LookupError if it has none.
PyObject* value_in_context(PyObject*, PyObject* variable) {
    static PyObject* const none_here =
        checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))).release();
    PyObject* value = nullptr;
    if (PyContextVar_Get(variable, none_here, &value) < 0) return nullptr;
    if (value != none_here) return value;
    Py_DECREF(value);
    PyErr_SetObject(PyExc_LookupError, variable);
    return nullptr;
}

PyObject* reader() {
    static PyMethodDef definition = {"ContextVar.get", value_in_context, METH_O, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    return function;
}

ContextVariableValue* variable_of(Tracer& tracer, const Arguments& arguments, const char* method) {
    auto* self = arguments.positional.empty() ? nullptr : dynamic_cast<ContextVariableValue*>(arguments.positional[0]);
    if (self == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           std::string("ContextVar.") + method + " is called on another object");
    if (self->is_made()) return self;
    tracer.realize(self);
    tracer.guard({GuardKind::Identity, self->source, self->object()});
    return self;
}

/// `ContextVar(name, *, default)`
Outcome make_variable(Tracer& tracer, const Arguments& arguments) {
    bind_builtin(tracer, "ContextVar", arguments, {"name", "default"}, 1, 1);
    tracer.realize(arguments.positional[0]);
    PyObject* name = arguments.positional[0]->object();
    if (arguments.positional.size() != 1 || name == nullptr || !PyUnicode_Check(name))
        tracer.break_graph(BreakKind::UnknownFunction, "ContextVar is called with unusual arguments");
    auto* variable = tracer.make<ContextVariableValue>(nullptr);
    variable->made_of = arguments;
    variable->is_known = true;
    return variable;
}

/// Reads the value that the variable has where the trace begins.
void read(Tracer& tracer, ContextVariableValue* variable) {
    if (variable->is_known) return;
    Answer answer = ask(tracer.provenance(), reader(), variable->outside);
    set_undoably(tracer, variable->is_known, true);
    if (!answer.object)
        tracer.guard({GuardKind::Absent, answer.source});
    else
        set_undoably(tracer, variable->current, tracer.outside(answer.source, answer.object.get()));
}

/// `default` of `ContextVar(name, default=...)`; null if it has none.
Value* own_default(Tracer& tracer, ContextVariableValue* variable) {
    if (variable->is_made()) return variable->made_of.keyword("default");
    // Only an empty context gives the default of a variable that has a value.
    Ref<> empty = checked(PyContext_New());
    Ref<> get = checked(PyObject_GetAttrString(variable->outside, "get"));
    Ref<> found = Ref<>::steal(PyObject_CallMethod(empty.get(), "run", "O", get.get()));
    if (!found) {
        PyErr_Clear();
        return nullptr;
    }
    PyObject* kept = tracer.keep(std::move(found));
    return tracer.outside(tracer.provenance().pinned(kept), kept);
}

Outcome get_value(Tracer& tracer, const Arguments& arguments) {
    ContextVariableValue* variable = variable_of(tracer, arguments, "get");
    auto bound = bind_builtin(tracer, "get", arguments, {"self", "default"}, 1, 2);
    if (Value* patched = variable->is_made() ? nullptr : patched_setting(tracer, variable->outside)) return patched;
    read(tracer, variable);
    if (variable->current != nullptr) return variable->current;
    if (bound[1] != nullptr) return bound[1];
    if (Value* value = own_default(tracer, variable)) return value;
    throw Raised{make_exception(tracer, reinterpret_cast<PyTypeObject*>(PyExc_LookupError), {variable})};
}

void note_change(Tracer& tracer, ContextChange* change, bool is_known, Value* value) {
    ContextVariableValue* variable = change->variable;
    tracer.effects().log({PlanOp::Call, {variable, change->operand}, change->method, change});
    set_undoably(tracer, variable->is_known, is_known);
    set_undoably(tracer, variable->current, value);
    set_undoably(tracer, variable->last_change, change);
}

Outcome set_value(Tracer& tracer, const Arguments& arguments) {
    static PyTypeObject* const token_class = imported_class("contextvars", "Token");
    static PyObject* const set = method_of_class(&PyContextVar_Type, "set");
    ContextVariableValue* variable = variable_of(tracer, arguments, "set");
    auto bound = bind_builtin(tracer, "set", arguments, {"self", "value"}, 2, 2);
    // It takes effect where the program sets it: what follows is captured with it.
    if (!variable->is_made() && !name_of_dynamo_setting(variable->outside).empty())
        tracer.break_graph(BreakKind::UnknownFunction, "a setting of torch._dynamo.config is changed");
    auto* token = tracer.make<ContextChange>(token_class, variable, bound[1], set);
    note_change(tracer, token, /*is_known=*/true, bound[1]);
    return token;
}

Outcome reset_value(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const reset = method_of_class(&PyContextVar_Type, "reset");
    ContextVariableValue* variable = variable_of(tracer, arguments, "reset");
    auto bound = bind_builtin(tracer, "reset", arguments, {"self", "token"}, 2, 2);
    auto* token = dynamic_cast<ContextChange*>(bound[1]);
    if (token == nullptr || token->variable != variable || token->is_used)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "ContextVar.reset is called with a token that the captured region has not made for it");
    set_undoably(tracer, token->is_used, true);
    auto* step = tracer.make<ContextChange>(Py_TYPE(Py_None), variable, token, reset);
    note_change(tracer, step, token->is_old_known, token->old);
    return tracer.none();
}

}  // namespace

int ContextVariableValue::rebuild(PlanBuilder& plan) {
    if (!is_made()) return ObjectValue::rebuild(plan);
    return rebuild_by_call(plan, this, reinterpret_cast<PyObject*>(&PyContextVar_Type), made_of);
}

void register_context_variables(Handlers& handlers) {
    handlers.add(reinterpret_cast<PyObject*>(&PyContextVar_Type), make_variable);
    handlers.add_method(&PyContextVar_Type, "get", get_value);
    handlers.add_method(&PyContextVar_Type, "set", set_value);
    handlers.add_method(&PyContextVar_Type, "reset", reset_value);
}

}  // namespace stator
