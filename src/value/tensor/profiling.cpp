/// `torch.profiler.record_function`: nodes of the graph enter and exit it.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/builtins/registry.h"
#include "value/recorder.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

PyTypeObject* record_function_class() {
    static auto* const held = imported_class("torch.autograd.profiler", "record_function");
    return held;
}

/// Its `__init__` evaluates an annotation of `typing`, for TorchScript. Its attributes other than name and arguments
/// are always the same.
Outcome make_recording(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const attributes = [] {
        Ref<> made = checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(record_function_class()), "s", ""));
        return checked(PyObject_GenericGetDict(made.get(), nullptr)).release();
    }();
    Value* self = arguments.positional.at(0);
    Value* name = arguments.positional.size() > 1 ? arguments.positional[1] : arguments.keyword("name");
    Value* rest = arguments.positional.size() > 2 ? arguments.positional[2] : arguments.keyword("args");
    if (name == nullptr || arguments.count() != (rest == nullptr ? 2 : 3))
        tracer.break_graph(BreakKind::UnknownFunction, "record_function is called with unexpected arguments");
    PyObject *attribute, *value;
    for (Py_ssize_t position = 0; PyDict_Next(attributes, &position, &attribute, &value);) {
        Value* given = utf8(attribute) == "name" ? name : utf8(attribute) == "args" ? rest : nullptr;
        self->set_own_attribute(tracer, attribute, given != nullptr ? given : tracer.constant(value));
    }
    return tracer.none();
}

Value* text_of(Tracer& tracer, Value* record, const char* name) {
    Value* text = record->own_attribute(tracer, interned(name));
    if (text == nullptr || !text->as_constant(tracer))
        tracer.break_graph(BreakKind::UnknownObject, "the name or arguments of a record_function are not constants");
    return text;
}

Outcome enter_recording(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const begin = imported("torch", "ops.profiler._record_function_enter_new");
    static PyObject* const end = imported("torch", "ops.profiler._record_function_exit._RecordFunction");
    static PyObject* const enter =
        checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(record_function_class()), "__enter__")).release();
    Value* self = arguments.positional.at(0);
    // An outside object would have to store the result of entering it, which exists only in the graph.
    if (self->source != nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "a record_function that was created before the call is entered");
    tracer.realize(self);
    Value *name = text_of(tracer, self, "name"), *rest = text_of(tracer, self, "args");
    graph::Node* node = tracer.recorder().emit_effect(begin, Arguments::of(name, rest));
    tracer.modes().push_context({self, enter, end, node, tracer.modes().current(), TorchModes::Restores::Nothing});
    return self;
}

Outcome exit_recording(Tracer& tracer, const Arguments& arguments) {
    tracer.modes().pop_context(arguments.positional.at(0));
    return tracer.none();
}

}  // namespace

void register_profiling(Handlers& handlers) {
    handlers.add_method(record_function_class(), "__init__", make_recording);
    handlers.add_method(record_function_class(), "__enter__", enter_recording);
    handlers.add_method(record_function_class(), "__exit__", exit_recording);
}

}  // namespace stator
