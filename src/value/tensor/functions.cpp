/// PyTorch functions that are not operations: modes, queries, and the functions of torch.compiler.
#include <algorithm>
#include <span>
#include <unordered_map>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "effect/plan.h"
#include "torch/global_state.h"
#include "torch/known.h"
#include "torch/names.h"
#include "torch/tensor.h"
#include "value/builtins/registry.h"
#include "value/deferred_graph.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/function.h"
#include "value/kinds/object.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/attributes.h"
#include "value/tensor/autocast.h"
#include "value/tensor/distributed_tensors.h"
#include "value/tensor/function_transforms.h"
#include "value/tensor/gradients.h"
#include "value/tensor/is_compiling.h"
#include "value/tensor/jagged_tensors.h"
#include "value/tensor/nested_compile.h"
#include "value/tensor/settings.h"
#include "value/tensor/tensor.h"
#include "value/tensor/torch_function.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

Ref<> constant_argument(Tracer& tracer, Value* value, const char* what) {
    Ref<> object = value == nullptr ? Ref<>() : value->as_constant(tracer);
    if (!object) tracer.break_graph(BreakKind::UnknownObject, std::string(what) + " is not a constant");
    return object;
}

// --- gradients
// ---------------------------------------------------------------------------------------------------------

void expect_known_grad_mode(Tracer& tracer) {
    if (tracer.modes().runs_in_any_grad_mode())
        tracer.break_graph(BreakKind::UnsupportedTensor, "a backward pass reads or changes the grad mode");
}

Outcome is_grad_enabled(Tracer& tracer, const Arguments&) {
    expect_known_grad_mode(tracer);
    return tracer.boolean(tracer.modes().current().grad);
}

/// Whether `torch.no_grad` and its like set the mode, and not the program itself.
bool is_called_by_context(Tracer& tracer) {
    const FunctionValue* caller = tracer.running_function();
    if (caller->globals == nullptr) return false;
    PyObject* module = PyDict_GetItemString(caller->globals, "__name__");
    return module != nullptr && PyUnicode_CheckExact(module) && utf8(module) == "torch.autograd.grad_mode";
}

Outcome set_grad_enabled(Tracer& tracer, const Arguments& arguments) {
    expect_known_grad_mode(tracer);
    Ref<> wanted = constant_argument(tracer, arguments.positional.at(0), "the grad mode");
    bool enabled = PyObject_IsTrue(wanted.get()) == 1;
    torch_room::Modes modes = tracer.modes().current();
    // As in torch._dynamo's graphs, where the program sets the mode that it has already, the call is a node.
    if (modes.grad == enabled) {
        if (!is_called_by_context(tracer))
            tracer.recorder().emit_idle_switch(torch_room::known().set_grad_enabled,
                                               Arguments::of(tracer.boolean(enabled)));
        return tracer.none();
    }
    modes.grad = enabled;
    tracer.recorder().emit_switch(torch_room::known().set_grad_enabled, Arguments::of(tracer.boolean(enabled)));
    tracer.modes().set(modes);
    return tracer.none();
}

// --- inference mode
// ----------------------------------------------------------------------------------------------------

Outcome is_inference_mode_enabled(Tracer& tracer, const Arguments&) {
    return tracer.boolean(tracer.modes().current().inference);
}

/// `torch._C._InferenceMode(mode)`, which `torch.inference_mode` enters and exits.
struct InferenceModeValue final : Value {
    InferenceModeValue(bool mode, Value* argument) : Value(Kind::Context), mode(mode), mode_argument(argument) {}

    bool mode;
    Value* mode_argument;

    PyTypeObject* type() const override {
        static auto* held = reinterpret_cast<PyTypeObject*>(find_imported("torch._C", "_InferenceMode").release());
        return held;
    }
    int rebuild(PlanBuilder& plan) override {
        return rebuild_by_call(plan, this, reinterpret_cast<PyObject*>(type()), {mode_argument});
    }
    std::string print() const override { return "inference mode"; }
};

Outcome make_inference_mode(Tracer& tracer, const Arguments& arguments) {
    Ref<> mode = constant_argument(tracer, arguments.positional.at(0), "the inference mode");
    bool is_on = PyObject_IsTrue(mode.get()) == 1;
    return tracer.make<InferenceModeValue>(is_on, tracer.boolean(is_on));
}

Outcome enter_inference_mode(Tracer& tracer, const Arguments& arguments) {
    auto* context = static_cast<InferenceModeValue*>(arguments.positional.at(0));
    static PyObject* function = find_imported("torch.autograd.grad_mode", "_enter_inference_mode").release();
    static PyObject* leave = find_imported("torch.autograd.grad_mode", "_exit_inference_mode").release();
    static PyObject* enter = PyObject_GetAttrString(reinterpret_cast<PyObject*>(context->type()), "__enter__");
    // Tensors that are made in this mode are inference tensors. A compiler makes all results of a graph in one mode.
    if (tracer.run_by() == Tracer::RunBy::Compiler && context->mode != tracer.modes().current().inference) {
        if (!tracer.wants_one_graph())
            tracer.break_graph(BreakKind::UnsupportedTensor,
                               "inference mode is entered or left inside a function that a backend compiles");
        tracer.recorder().keep_as_captured();
    }
    graph::Node* node = tracer.recorder().emit_effect(function, Arguments::of(tracer.boolean(context->mode)));
    torch_room::Modes before = tracer.modes().current(), modes = before;
    modes.inference = context->mode;
    if (context->mode) modes.grad = false;
    tracer.modes().set(modes);
    tracer.modes().push_context({context, enter, leave, node, before, TorchModes::Restores::Autograd});
    return context;
}

Outcome exit_inference_mode(Tracer& tracer, const Arguments& arguments) {
    tracer.modes().pop_context(arguments.positional.at(0));
    return tracer.none();
}

// --- autocast
// ----------------------------------------------------------------------------------------------------------

/// A backward pass is traced as if autocast were off, which it need not be when it runs.
void expect_known_autocast(Tracer& tracer) {
    const TorchModes& modes = tracer.modes();
    bool was_on = modes.at_entry().autocast_anywhere();
    for (const TorchModes::EnteredContext& context : modes.contexts())
        was_on |= context.restores == TorchModes::Restores::Autocast;
    if (was_on && tracer.deferred_graphs().is_open() && !modes.current().autocast_anywhere())
        tracer.break_graph(BreakKind::UnsupportedTensor, "a backward pass reads the state of autocast");
}

torch_room::Modes::Autocast autocast_of(Tracer& tracer, const Arguments& arguments, const char* otherwise) {
    expect_known_autocast(tracer);
    Value* argument = !arguments.positional.empty() ? arguments.positional[0] : arguments.keyword("device_type");
    Ref<> device_type = argument == nullptr ? checked(PyUnicode_FromString(otherwise))
                                            : constant_argument(tracer, argument, "the device of autocast");
    torch_room::Modes modes = tracer.modes().current();
    torch_room::Modes::Autocast* autocast = modes.autocast_of(autocast_device(tracer, device_type.get()));
    if (autocast == nullptr)
        tracer.break_graph(BreakKind::UnsupportedTensor, "the autocast state of an unsupported device is read");
    tracer.modes().rely_on_autocast();
    return *autocast;
}

Outcome is_autocast_enabled(Tracer& tracer, const Arguments& arguments) {
    return tracer.boolean(autocast_of(tracer, arguments, "cuda").enabled);
}

Outcome is_autocast_cpu_enabled(Tracer& tracer, const Arguments& arguments) {
    return tracer.boolean(autocast_of(tracer, arguments, "cpu").enabled);
}

Outcome is_any_autocast_enabled(Tracer& tracer, const Arguments&) {
    expect_known_autocast(tracer);
    return tracer.boolean(tracer.modes().current().autocast_anywhere());
}

Outcome get_autocast_dtype(Tracer& tracer, const Arguments& arguments) {
    return tracer.constant(torch_room::dtype_object(autocast_of(tracer, arguments, "cuda").dtype));
}

Outcome get_autocast_cpu_dtype(Tracer& tracer, const Arguments& arguments) {
    return tracer.constant(torch_room::dtype_object(autocast_of(tracer, arguments, "cpu").dtype));
}

Outcome is_autocast_cache_enabled(Tracer& tracer, const Arguments&) {
    expect_known_autocast(tracer);
    tracer.modes().rely_on_autocast();
    return tracer.boolean(tracer.modes().current().autocast_cache);
}

Value* own(Tracer& tracer, Value* object, const char* name) {
    Value* value = object->own_attribute(tracer, interned(name));
    if (value == nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "an autocast object lacks an attribute that Stator expects");
    return value;
}

Outcome enter_autocast(Tracer& tracer, const Arguments& arguments) {
    Value* self = arguments.positional.at(0);
    tracer.realize(self);
    Value *device = own(tracer, self, "device"), *dtype = own(tracer, self, "fast_dtype");
    Value *enabled = own(tracer, self, "_enabled"), *cache = own(tracer, self, "_cache_enabled");
    Ref<> device_type = constant_argument(tracer, device, "the device of autocast");
    Ref<> fast_dtype = constant_argument(tracer, dtype, "the dtype of autocast");
    Ref<> is_enabled = constant_argument(tracer, enabled, "autocast's switch");
    Ref<> uses_cache = constant_argument(tracer, cache, "autocast's cache");
    torch_room::Modes before = tracer.modes().current(), modes = before;
    torch_room::Modes::Autocast* autocast = modes.autocast_of(autocast_device(tracer, device_type.get()));
    auto as_dtype = torch_room::as_dtype(fast_dtype.get());
    if (autocast == nullptr || !as_dtype)
        tracer.break_graph(BreakKind::UnsupportedTensor, "autocast of an unsupported device or dtype is entered");
    autocast->enabled = PyObject_IsTrue(is_enabled.get()) == 1;
    autocast->dtype = *as_dtype;
    modes.autocast_cache = PyObject_IsTrue(uses_cache.get()) == 1;
    static PyObject* function = find_imported("torch.amp.autocast_mode", "_enter_autocast").release();
    graph::Node* node = tracer.recorder().emit_effect(function, Arguments::of(device, dtype, enabled, cache));
    if (self->source == nullptr) {
        // If the object is still used after the captured region while it is entered, its `__exit__` needs these
        // attributes.
        torch_room::Modes::Autocast* outer = before.autocast_of(autocast_device(tracer, device_type.get()));
        self->set_own_attribute(tracer, interned("prev_cache_enabled"), tracer.boolean(before.autocast_cache));
        self->set_own_attribute(tracer, interned("prev"), tracer.boolean(outer->enabled));
        self->set_own_attribute(tracer, interned("prev_fastdtype"),
                                tracer.constant(torch_room::dtype_object(outer->dtype)));
    }
    tracer.modes().set(modes);
    static PyObject* leave = find_imported("torch.amp.autocast_mode", "_exit_autocast").release();
    static PyObject* enter =
        PyObject_GetAttrString(find_imported("torch.amp.autocast_mode", "autocast").get(), "__enter__");
    tracer.modes().push_context({self, enter, leave, node, before, TorchModes::Restores::Autocast});
    return self;
}

/// A context that was entered before the captured region, or by hand, is left by what its `__exit__` calls.
Outcome exit_autocast(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const leave =
        checked(PyObject_GetAttrString(imported("torch.amp.autocast_mode", "autocast"), "__exit__")).release();
    Value* self = arguments.positional.at(0);
    if (std::ranges::find(tracer.modes().contexts(), self, &TorchModes::EnteredContext::manager) ==
        tracer.modes().contexts().end()) {
        auto* function = cast<FunctionValue>(tracer.outside(tracer.provenance().pinned(leave), leave));
        tracer.realize(function);
        return tracer.push_call(function, arguments);
    }
    tracer.modes().pop_context(self);
    return tracer.boolean(false);
}

// --- queries
// -----------------------------------------------------------------------------------------------------------

Outcome is_compiling(Tracer& tracer, const Arguments&) {
    return value_of_is_compiling(tracer);
}

/// `MultiheadAttention` asks whether it may call one kernel for the whole layer. Uncompiled it does; a compiler gets
/// the operations of which the layer consists, as from torch._dynamo.
Outcome is_make_fx_tracing(Tracer& tracer, const Arguments&) {
    return tracer.boolean(tracer.run_by() == Tracer::RunBy::Compiler);
}

Outcome answers_false(Tracer& tracer, const Arguments&) {
    return tracer.boolean(false);
}

Outcome answers_none(Tracer& tracer, const Arguments&) {
    return tracer.none();
}

/// `has_torch_function` for a value that is not a tensor.
bool may_have_torch_function(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (SequenceValue* sequence = as_sequence(value)) {
        for (Value* item : sequence->all(tracer))
            if (may_have_torch_function(tracer, item)) return true;
        return false;
    }
    if (value->kind != Kind::Object) return false;
    Ref<> found =
        Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(value->type()), "__torch_function__"));
    if (!found) PyErr_Clear();
    return bool(found);
}

Outcome has_torch_function_among(Tracer& tracer, std::span<Value* const> values) {
    if (tracer.modes().has_function_modes()) return tracer.boolean(true);
    for (Value* value : values)
        if (has_active_torch_function(tracer, value)) return tracer.boolean(true);
    for (Value* value : values)
        if (may_have_torch_function(tracer, value))
            tracer.break_graph(
                BreakKind::UnsupportedTensor,
                "an object that is not a tensor and defines __torch_function__ is an argument of an operation");
    return tracer.boolean(false);
}

Outcome has_torch_function_variadic(Tracer& tracer, const Arguments& arguments) {
    return has_torch_function_among(tracer, arguments.positional);
}

Outcome has_torch_function(Tracer& tracer, const Arguments& arguments) {
    Value* given = arguments.positional.at(0);
    tracer.realize(given);
    SequenceValue* sequence = as_sequence(given);
    if (sequence == nullptr) return has_torch_function_among(tracer, arguments.positional);
    return has_torch_function_among(tracer, sequence->all(tracer));
}

Outcome is_tensor(Tracer& tracer, const Arguments& arguments) {
    Value* value = arguments.positional.at(0);
    tracer.realize(value);
    return tracer.boolean(value->kind == Kind::Tensor || value->kind == Kind::TensorObject);
}

/// Whether the data of one tensor may be assigned to the other: `module.to(device)` asks for each of its parameters.
Outcome has_compatible_copies(Tracer& tracer, const Arguments& arguments) {
    const bool are_two = arguments.positional.size() == 2 && arguments.keywords.empty();
    auto* tensor = are_two ? cast<TensorValue>(arguments.positional[0]) : nullptr;
    auto* given = are_two ? cast<TensorValue>(arguments.positional[1]) : nullptr;
    if (tensor != nullptr && given != nullptr) {
        tracer.realize(tensor);
        tracer.realize(given);
    }
    if (tensor == nullptr || given == nullptr || tensor->is_of_object || given->is_of_object ||
        tensor->meta->dispatch_keys != given->meta->dispatch_keys || tensor->meta->layout != given->meta->layout)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "torch._has_compatible_shallow_copy_type is called with tensors of different kinds");
    return tracer.boolean(true);
}

Task make_size(Tracer& tracer, Value* items) {
    auto* list = static_cast<SequenceValue*>(co_await operations::collect(tracer, items));
    co_return make_tuple(tracer, list->all(tracer), torch_room::size_class());
}

Outcome size_class(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.empty()) return make_tuple(tracer, {}, torch_room::size_class());
    return tracer.start(make_size(tracer, arguments.positional[0]));
}

/// A function compiled by `torch.jit.script`: the original Python function is traced, as torch._dynamo does.
Task call_scripted(Tracer& tracer, Value* scripted, Arguments given) {
    Value* original = scripted->own_attribute(tracer, interned("_torchdynamo_inline"));
    if (original == nullptr) tracer.break_graph(BreakKind::UnknownFunction, "a TorchScript function is called");
    co_return co_await forwarded(operations::call(tracer, original, given));
}

Outcome scripted_function(Tracer& tracer, const Arguments& arguments) {
    Arguments given = arguments;
    given.positional.erase(given.positional.begin());
    return tracer.start(call_scripted(tracer, arguments.positional.at(0), std::move(given)));
}

/// `torch.autograd.Variable(tensor)` of old programs: another tensor with the same data.
Outcome make_variable(Tracer& tracer, const Arguments& arguments) {
    Value* tensor = arguments.count() == 1 && !arguments.positional.empty() ? arguments.positional[0] : nullptr;
    if (tensor != nullptr) tracer.realize(tensor);
    if (tensor == nullptr || tensor->kind != Kind::Tensor)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "torch.autograd.Variable is called with arguments other than one tensor");
    return tracer.recorder().emit_method(interned("detach"), arguments);
}

/// Whether an autograd call has `create_graph=True`.
bool creates_graph(Tracer& tracer, const Arguments& arguments) {
    constexpr std::size_t kPlace = 4;  // of torch.autograd.grad; that of backward is 3
    Value* wanted = arguments.keyword("create_graph");
    if (wanted == nullptr) return arguments.positional.size() >= kPlace;
    tracer.realize(wanted);
    return wanted->object() != Py_False;
}

Outcome computes_gradients(Tracer& tracer, const Arguments& arguments) {
    // What aot_autograd makes of a graph can be differentiated once.
    if (creates_graph(tracer, arguments)) tracer.recorder().keep_as_captured();
    return capture_gradients(tracer, arguments);
}

Outcome runs_backward(Tracer& tracer, const Arguments& arguments) {
    if (creates_graph(tracer, arguments)) tracer.recorder().keep_as_captured();
    tracer.break_graph(BreakKind::UnsupportedTensor, "autograd is run inside the compiled function");
}

Outcome changes_random_state(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::OutsideMutation, "the random number generator state of PyTorch is set");
}

/// aot_autograd drops assertions without a message, so the usual message is added.
Outcome assert_async(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = find_imported("torch", "_assert_async").release();
    Arguments given = arguments;
    if (given.positional.size() == 1 && given.keywords.empty())
        given.positional.push_back(tracer.string("the assertion failed"));
    return tracer.recorder().emit_function(function, given);
}

}  // namespace

torch_room::DeviceKind autocast_device(Tracer& tracer, Borrowed<> name) {
    Ref<> device =
        Ref<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(torch_room::known().device_class), name));
    if (!device) tracer.raise_from_python();
    return torch_room::as_device(device.get())->kind;
}

void register_torch(Handlers& handlers) {
    register_tensor_methods(handlers);
    register_function_transforms(handlers);
    register_settings(handlers);
    register_function_modes(handlers);
    register_autocast_calls(handlers);
    if (Ref<> scripted = find_imported("torch._C", "ScriptFunction"); scripted) {
        Ref<> call = Ref<>::steal(PyObject_GetAttrString(scripted.get(), "__call__"));
        if (call)
            handlers.add(PyInstanceMethod_Check(call.get()) ? PyInstanceMethod_GET_FUNCTION(call.get()) : call.get(),
                         scripted_function);
        PyErr_Clear();
    }
    handlers.add("torch", "_assert_async", assert_async);
    handlers.add("torch", "is_grad_enabled", is_grad_enabled);
    handlers.add("torch._C", "_set_grad_enabled", set_grad_enabled);
    handlers.add("torch", "is_inference_mode_enabled", is_inference_mode_enabled);
    handlers.add("torch._C", "_InferenceMode", make_inference_mode);
    if (Ref<> inference = find_imported("torch._C", "_InferenceMode"); inference) {
        auto* type = reinterpret_cast<PyTypeObject*>(inference.get());
        handlers.add_method(type, "__enter__", enter_inference_mode);
        handlers.add_method(type, "__exit__", exit_inference_mode);
    }
    handlers.add("torch", "is_autocast_enabled", is_autocast_enabled);
    handlers.add("torch", "is_autocast_cpu_enabled", is_autocast_cpu_enabled);
    handlers.add("torch._C", "_is_any_autocast_enabled", is_any_autocast_enabled);
    handlers.add("torch", "get_autocast_dtype", get_autocast_dtype);
    handlers.add("torch", "get_autocast_gpu_dtype", get_autocast_dtype);
    handlers.add("torch", "get_autocast_cpu_dtype", get_autocast_cpu_dtype);
    handlers.add("torch", "is_autocast_cache_enabled", is_autocast_cache_enabled);
    for (const char* module :
         {"torch.amp.autocast_mode", "torch.cpu.amp.autocast_mode", "torch.cuda.amp.autocast_mode"}) {
        Ref<> autocast = find_imported(module, "autocast");
        if (!autocast) continue;
        auto* type = reinterpret_cast<PyTypeObject*>(autocast.get());
        handlers.add_method(type, "__enter__", enter_autocast);
        handlers.add_method(type, "__exit__", exit_autocast);
    }
    for (const char* module : {"torch.compiler", "torch._utils"}) handlers.add(module, "is_compiling", is_compiling);
    handlers.add("torch.compiler", "is_dynamo_compiling", is_compiling);
    handlers.add("torch.compiler", "is_exporting", answers_false);
    handlers.add("torch.nn.modules.activation", "_is_make_fx_tracing", is_make_fx_tracing);
    handlers.add("torch._jit_internal", "is_scripting", answers_false);
    handlers.add("torch.jit", "is_tracing", answers_false);
    handlers.add("torch._C", "_is_tracing", answers_false);
    handlers.add("torch._C", "_get_tracing_state", answers_none);
    handlers.add("torch._C", "_log_api_usage_once", answers_none);
    handlers.add_once_imported("torch.onnx", "is_in_onnx_export", answers_false);
    handlers.add("torch._C", "_has_torch_function", has_torch_function);
    for (const char* name : {"_has_torch_function_unary", "_has_torch_function_variadic"})
        handlers.add("torch._C", name, has_torch_function_variadic);
    handlers.add("torch", "is_tensor", is_tensor);
    handlers.add("torch", "_has_compatible_shallow_copy_type", has_compatible_copies);
    handlers.add("torch", "Size", size_class);
    handlers.add("torch.autograd", "Variable", make_variable);
    handlers.add("torch.autograd", "grad", computes_gradients);
    handlers.add("torch.autograd", "backward", runs_backward);
    for (const char* name : {"manual_seed", "seed", "set_rng_state"}) handlers.add("torch", name, changes_random_state);

    // Executed while tracing: their results are guarded as part of the global state, or are constant within a process.
    for (const char* name :
         {"get_default_dtype", "get_num_threads", "are_deterministic_algorithms_enabled",
          "is_deterministic_algorithms_warn_only_enabled", "get_float32_matmul_precision", "promote_types", "can_cast",
          "result_type", "is_anomaly_enabled", "is_warn_always_enabled", "is_storage"})
        handlers.add_pure("torch", name);
    for (const char* name : {"_get_cudnn_enabled", "_is_autocast_available", "_get_privateuse1_backend_name",
                             "_len_torch_dispatch_stack", "_get_mkldnn_enabled", "_infer_size"})
        handlers.add_pure("torch._C", name);
    handlers.add_pure("torch._C", "_get_cpu_capability");
    handlers.add_pure("torch._C._cpu", "_get_cpu_capability");
    for (const char* name : {"is_available", "device_count", "is_bf16_supported"})
        handlers.add_pure("torch.cuda", name);
    handlers.add_pure("torch._C", "_accelerator_getAccelerator");
    register_nested_compile(handlers);
    register_jagged_tensors(handlers);
    register_distributed_tensors(handlers);
    handlers.add_pure("torch.distributed", "is_available");
    handlers.add_pure("torch.amp.autocast_mode", "is_autocast_available");
    for (const char* name : {"device", "finfo", "iinfo", "dtype", "layout", "memory_format"})
        if (Ref<> type = find_imported("torch", name); type && PyType_Check(type.get()))
            handlers.add_pure_class(reinterpret_cast<PyTypeObject*>(type.release()));
}

}  // namespace stator
