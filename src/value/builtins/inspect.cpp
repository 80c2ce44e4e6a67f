/// `inspect.signature`: the real function is called, and everything that it reads of the function is guarded.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "value/builtins/registry.h"
#include "value/kinds/function.h"
#include "value/protocol/attributes.h"
#include "value/protocol/calling.h"

namespace stator {

namespace {

/// The function that `inspect.signature` reads: `__wrapped__`, set by `functools.wraps`, leads to it.
FunctionValue* unwrapped(Tracer& tracer, Value* callable) {
    while (true) {
        tracer.realize(callable);
        auto* function = cast<FunctionValue>(callable);
        if (function == nullptr || function->outside == nullptr || function->source == nullptr) return nullptr;
        if (function->own_attribute(tracer, interned("__signature__")) != nullptr) return nullptr;
        callable = function->own_attribute(tracer, interned("__wrapped__"));
        if (callable == nullptr) return function;
    }
}

/// The defaults of a function can be replaced, and keyword defaults can be changed in place.
void guard_defaults(Tracer& tracer, FunctionValue* function) {
    auto place = [&](const char* name, PyObject* held) {
        return tracer.provenance().child(function->source, Access::Member, interned(name), 0, held);
    };
    Ref<> defaults = checked(PyObject_GetAttrString(function->outside, "__defaults__"));
    tracer.guard({GuardKind::Identity, place("__defaults__", defaults.get()), defaults.get()});
    Ref<> of_keywords = checked(PyObject_GetAttrString(function->outside, "__kwdefaults__"));
    Source* dict = place("__kwdefaults__", of_keywords.get());
    tracer.guard({GuardKind::Identity, dict, of_keywords.get()});
    if (of_keywords.get() == Py_None) return;
    int first = function->code->co_argcount;
    for (int i = first; i < first + function->code->co_kwonlyargcount; ++i) {
        PyObject* name = PyTuple_GET_ITEM(function->code->co_localsplusnames, i);
        PyObject* held = PyDict_GetItemWithError(of_keywords.get(), name);
        Source* item = tracer.provenance().child(dict, Access::DictItem, name, 0, held);
        tracer.guard({held != nullptr ? GuardKind::Identity : GuardKind::Absent, item, held});
    }
}

Outcome signature(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const real = imported("inspect", "signature");
    Value* callable = arguments.count() == 1 && !arguments.positional.empty() ? arguments.positional[0] : nullptr;
    if (callable != nullptr) tracer.realize(callable);
    auto* method = cast<MethodValue>(callable);
    FunctionValue* function = callable == nullptr ? nullptr : unwrapped(tracer, method ? method->function : callable);
    if (function == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "inspect.signature of a callable that is not a Python function or method, or with options");
    tracer.guard({GuardKind::Identity, function->source, function->outside});
    guard_defaults(tracer, function);
    Ref<> inspected = Ref<>::share(function->outside);
    if (method != nullptr) inspected = checked(PyMethod_New(function->outside, Py_None));
    Ref<> answer = Ref<>::steal(PyObject_CallOneArg(real, inspected.get()));
    if (!answer) tracer.raise_from_python();
    PyObject* kept = tracer.keep(std::move(answer));
    return tracer.outside(tracer.provenance().pinned(kept), kept);
}

}  // namespace

void register_inspect(Handlers& handlers) {
    handlers.add("inspect", "signature", signature);
}

}  // namespace stator
