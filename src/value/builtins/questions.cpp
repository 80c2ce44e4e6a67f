/// C functions that are called while tracing and asked again by a guard (source/query.h).
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "source/query.h"
#include "value/builtins/library.h"
#include "value/kinds/class.h"
#include "value/kinds/made_class.h"
#include "value/kinds/sequence.h"
#include "value/tracer.h"

namespace stator {

namespace {

struct Switch {
    const char* module;
    const char* name;
};

/// Switches of PyTorch and of Python that are not part of the global state that every entry compares.
constexpr Switch kSwitches[] = {
    {"torch._C", "_get_cublas_allow_tf32"}, {"torch._C", "_get_cudnn_allow_tf32"},
    {"torch._C", "_get_cudnn_benchmark"},   {"torch._C", "_get_cudnn_deterministic"},
    {"torch._C", "_get_nnpack_enabled"},    {"sys", "getrecursionlimit"},
    {"torch.cuda", "is_initialized"},
};

template <std::size_t kSwitch>
Outcome read_switch(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported(kSwitches[kSwitch].module, kSwitches[kSwitch].name);
    if (arguments.count() != 0)
        tracer.break_graph(BreakKind::UnknownFunction,
                           std::string(kSwitches[kSwitch].name) + " is called with arguments");
    Answer answer = ask(tracer.provenance(), function);
    if (!answer.object)
        tracer.break_graph(BreakKind::UnknownFunction, std::string(kSwitches[kSwitch].name) + " raises an error");
    Value* value = tracer.outside(answer.source, answer.object.get());
    tracer.realize(value);
    return value;
}

PyTypeObject* engine_class() {
    static PyTypeObject* const type = Py_TYPE(imported("torch.autograd", "Variable._execution_engine"));
    return type;
}

/// Whether a backward pass that is running allows checkpoints.
Outcome is_checkpoint_valid(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = cpython::lookup_in_mro(engine_class(), interned("is_checkpoint_valid"), nullptr);
    Value* engine = arguments.count() == 1 && arguments.positional.size() == 1 ? arguments.positional[0] : nullptr;
    if (engine == nullptr || engine->object() == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction, "is_checkpoint_valid is called with unusual arguments");
    tracer.realize(engine);
    if (engine->source != nullptr) tracer.guard({GuardKind::Identity, engine->source, engine->object()});
    Answer answer = ask(tracer.provenance(), function, engine->object());
    if (!answer.object) tracer.break_graph(BreakKind::UnknownFunction, "is_checkpoint_valid raises an error");
    Value* value = tracer.outside(answer.source, answer.object.get());
    tracer.realize(value);
    return value;
}

/// `cls.__subclasses__()`: a new list with each call, of classes that are guarded.
Outcome subclasses(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = PyDict_GetItemString(cpython::class_dict(&PyType_Type), "__subclasses__");
    auto* type = arguments.count() == 1 && arguments.positional.size() == 1 ? cast<ClassValue>(arguments.positional[0])
                                                                            : nullptr;
    if (type == nullptr || MadeClass::find(type->held) != nullptr || Py_TYPE(type->held) != &PyType_Type)
        tracer.break_graph(BreakKind::UnknownFunction, "type.__subclasses__ is called with unusual arguments");
    tracer.realize(type);
    Answer answer = ask(tracer.provenance(), function, type->object());
    if (!answer.object) tracer.break_graph(BreakKind::UnknownFunction, "type.__subclasses__ raises an error");
    auto* found = static_cast<ListValue*>(tracer.outside(answer.source, answer.object.get()));
    tracer.realize(found);
    std::vector<Value*> classes = found->all(tracer);
    for (Value* each : classes) tracer.realize(each);
    return make_list(tracer, std::move(classes));
}

template <std::size_t... kAll>
void register_switches(Handlers& handlers, std::index_sequence<kAll...>) {
    (handlers.add(kSwitches[kAll].module, kSwitches[kAll].name, read_switch<kAll>), ...);
}

}  // namespace

void register_questions(Handlers& handlers) {
    register_switches(handlers, std::make_index_sequence<std::size(kSwitches)>());
    if (PyObject* method = cpython::lookup_in_mro(engine_class(), interned("is_checkpoint_valid"), nullptr))
        handlers.add(method, is_checkpoint_valid);
    handlers.add_method(&PyType_Type, "__subclasses__", subclasses);
}

}  // namespace stator
