#include "value/builtins/single_dispatch.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/effect_log.h"
#include "value/kinds/dict.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// The code of `dispatch`, which each call of `singledispatch` makes a function of.
PyObject* dispatch_code() {
    static PyObject* const code = []() -> PyObject* {
        PyObject* constants =
            reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(imported("functools", "singledispatch")))->co_consts;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
            PyObject* inner = PyTuple_GET_ITEM(constants, i);
            if (PyCode_Check(inner) && utf8(reinterpret_cast<PyCodeObject*>(inner)->co_name) == "dispatch")
                return Py_NewRef(inner);
        }
        return nullptr;
    }();
    return code;
}

Value* variable_of_closure(Tracer& tracer, FunctionValue* function, std::string_view wanted) {
    Ref<> names = checked(PyCode_GetFreevars(function->code));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
        if (utf8(PyTuple_GET_ITEM(names.get(), i)) == wanted)
            return function->closure_cell(tracer, static_cast<std::size_t>(i))->get(tracer);
    return nullptr;
}

}  // namespace

std::optional<Outcome> call_single_dispatch(Tracer& tracer, FunctionValue* function, const Arguments& arguments) {
    if (reinterpret_cast<PyObject*>(function->code) != dispatch_code()) return std::nullopt;
    if (arguments.positional.size() != 1 || !arguments.keywords.empty()) return std::nullopt;
    Value* given = arguments.positional[0];
    tracer.realize(given);
    Ref<> wanted = given->as_constant(tracer);
    if (!wanted || !PyType_Check(wanted.get())) return std::nullopt;
    // Set once a class is registered that other classes may be registered with: then the answer depends on those too.
    Value* token = variable_of_closure(tracer, function, "cache_token");
    Value* registered = variable_of_closure(tracer, function, "registry");
    if (token == nullptr || registered == nullptr) return std::nullopt;
    tracer.realize(token);
    tracer.realize(registered);
    auto* registry = cast<DictValue>(registered);
    if (token->object() != Py_None || registry == nullptr || tracer.effects().has_mutated(registry))
        return std::nullopt;
    Ref<> found = Ref<>::steal(PyObject_CallOneArg(function->outside, wanted.get()));
    if (!found) tracer.raise_from_python();
    for (Table::Entry* entry : registry->entries(tracer)) {
        Value* implementation = registry->value_of(tracer, entry);
        if (implementation->object() != found.get()) continue;
        tracer.guard({GuardKind::Identity, implementation->source, found.get()});
        return implementation;
    }
    return std::nullopt;
}

}  // namespace stator
