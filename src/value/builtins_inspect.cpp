/// `inspect.signature`: done for real, because what it reads of a function is guarded as a whole.
#include "base/names.h"
#include "base/python_error.h"
#include "value/attributes.h"
#include "value/calling.h"
#include "value/function.h"
#include "value/registry.h"

namespace stator {

namespace {

/// The function whose signature stands for that of `callable`: decorators made with `functools.wraps` lead to it.
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

Outcome signature(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const real = PyObject_GetAttrString(PyImport_ImportModule("inspect"), "signature");
    Value* callable = arguments.count() == 1 && !arguments.positional.empty() ? arguments.positional[0] : nullptr;
    if (callable != nullptr) tracer.realize(callable);
    auto* method = cast<MethodValue>(callable);
    FunctionValue* function = callable == nullptr ? nullptr : unwrapped(tracer, method ? method->function : callable);
    if (function == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction, "inspect.signature is asked about something special");
    tracer.guard({GuardKind::Identity, function->source, function->outside});
    for (const char* part : {"__defaults__", "__kwdefaults__"}) {
        Outcome held = function->get_attribute(tracer, interned(part));
        STATOR_CHECK(!held.is_pending(), "C code reads the parts of a function");
        tracer.realize(held.value());
    }
    Ref<> asked = Ref<>::share(function->outside);
    if (method != nullptr) asked = checked(PyMethod_New(function->outside, Py_None));
    Ref<> answer = Ref<>::steal(PyObject_CallOneArg(real, asked.get()));
    if (!answer) tracer.raise_from_python();
    PyObject* kept = tracer.keep(std::move(answer));
    return tracer.outside(tracer.provenance().pinned(kept), kept);
}

}  // namespace

void register_inspect(Handlers& handlers) {
    handlers.add("inspect", "signature", signature);
}

}  // namespace stator
