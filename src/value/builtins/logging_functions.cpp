#include "value/builtins/logging_functions.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "torch/config_setting.h"
#include "value/effect_log.h"
#include "value/torch_modes.h"

namespace stator {

namespace {

/// A setting if it is a set with elements; else empty.
Ref<> with_functions(Ref<> setting) {
    const bool has_some = setting && PyAnySet_Check(setting.get()) && PySet_GET_SIZE(setting.get()) > 0;
    return has_some ? std::move(setting) : Ref<>();
}

bool holds(const Ref<>& functions, PyObject* function) {
    if (!functions) return false;
    const int found = PySet_Contains(functions.get(), function);
    PyErr_Clear();
    return found == 1;
}

/// `function(*arguments)`, called by plans.
PyObject* call_later(PyObject*, PyObject* given) {
    Ref<> arguments = Ref<>::steal(PyTuple_GetSlice(given, 1, PyTuple_GET_SIZE(given)));
    return arguments ? PyObject_CallObject(PyTuple_GET_ITEM(given, 0), arguments.get()) : nullptr;
}

PyObject* later() {
    static PyMethodDef definition{"call_later", call_later, METH_VARARGS, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    return function;
}

/// The function with the keyword arguments of a call, which are constants.
PyObject* with_keywords(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    static PyObject* const partial = imported("functools", "partial");
    if (arguments.keywords.empty()) return function;
    Ref<> keywords = checked(PyDict_New());
    for (const Keyword& keyword : arguments.keywords) {
        Ref<> constant = keyword.value->as_constant(tracer);
        if (!constant)
            tracer.break_graph(BreakKind::InputOutput,
                               "a function in reorderable_logging_functions is called with a keyword argument that is "
                               "not a constant");
        checked(PyDict_SetItem(keywords.get(), keyword.name, constant.get()));
    }
    Ref<> first = checked(PyTuple_Pack(1, function));
    return tracer.keep(checked(PyObject_Call(partial, first.get(), keywords.get())));
}

}  // namespace

LoggingFunctions::LoggingFunctions() {
    static PyObject* const name = interned("torch._dynamo.config");
    PyObject* config = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
    if (config == nullptr) return;
    static auto* const ignored = new torch_room::ConfigSetting(config, "ignore_logging_functions");
    static auto* const ignored_before = new torch_room::ConfigSetting(config, "ignore_logger_methods");
    static auto* const reordered = new torch_room::ConfigSetting(config, "reorderable_logging_functions");
    Ref<> all_ignored = ignored->read();
    // The name in older versions of PyTorch.
    if (!all_ignored) all_ignored = ignored_before->read();
    ignored_ = with_functions(std::move(all_ignored));
    reordered_ = with_functions(reordered->read());
}

bool LoggingFunctions::ignores(PyObject* function, const Arguments& arguments) const {
    if (!ignored_) return false;
    if (holds(ignored_, function)) return true;
    PyObject* self = arguments.positional.empty() ? nullptr : arguments.positional[0]->object();
    if (self == nullptr) return false;
    Ref<> method = checked(PyMethod_New(function, self));
    return holds(ignored_, method.get());
}

Value* LoggingFunctions::call(Tracer& tracer, PyObject* function, const Arguments& arguments) const {
    if (ignores(function, arguments)) return tracer.none();
    if (!holds(reordered_, function)) return nullptr;
    if (tracer.modes().has_function_modes())
        tracer.break_graph(BreakKind::InputOutput,
                           "a function in reorderable_logging_functions is called inside of a torch function mode");
    for (Value* value : arguments.positional) {
        tracer.realize(value);
        const bool is_fixed =
            value->kind == Kind::Constant || (value->kind == Kind::Tuple && value->as_constant(tracer));
        if (value->kind != Kind::Tensor && !is_fixed)
            tracer.break_graph(BreakKind::InputOutput,
                               "a function in reorderable_logging_functions is called with other arguments than "
                               "tensors and constants");
    }
    PyObject* callee = tracer.keep(Ref<>::share(with_keywords(tracer, function, arguments)));
    std::vector<Value*> given = arguments.positional;
    given.insert(given.begin(), tracer.outside(tracer.provenance().pinned(callee), callee));
    tracer.effects().log({PlanOp::Call, std::move(given), later()});
    return tracer.none();
}

}  // namespace stator
