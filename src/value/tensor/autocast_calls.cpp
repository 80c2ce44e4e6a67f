/// Autocast that the program switches by hand: `torch.set_autocast_enabled` and its like, and `_enter_autocast`, with
/// which graphs enter it. The nodes are the same calls; unlike a context, they leave the mode as the program does.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "source/query.h"
#include "torch/known.h"
#include "torch/names.h"
#include "torch/settings.h"
#include "value/builtins/registry.h"
#include "value/deferred_graph.h"
#include "value/kinds/constant.h"
#include "value/kinds/function.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/autocast.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, const char* why) {
    tracer.break_graph(BreakKind::UnsupportedTensor, why);
}

constexpr char kSetEnabled[] = "set_autocast_enabled", kSetCpuEnabled[] = "set_autocast_cpu_enabled",
               kSetDtype[] = "set_autocast_dtype", kSetCpuDtype[] = "set_autocast_cpu_dtype",
               kSetGpuDtype[] = "set_autocast_gpu_dtype", kSetCache[] = "set_autocast_cache_enabled",
               kIncrement[] = "autocast_increment_nesting", kDecrement[] = "autocast_decrement_nesting",
               kClear[] = "clear_autocast_cache";

template <const char* kName>
PyObject* function() {
    static PyObject* const found = imported("torch", kName);
    return found;
}

/// After a graph break the plan enters the open contexts again, and sets nothing that has been set inside of them.
void expect_no_open_autocast(Tracer& tracer) {
    for (const TorchModes::EnteredContext& context : tracer.modes().contexts())
        if (context.restores == TorchModes::Restores::Autocast)
            refuse(tracer, "autocast is switched by hand inside of a context of autocast");
}

void expect_plain_graph(Tracer& tracer) {
    if (tracer.deferred_graphs().is_open())
        refuse(tracer, "autocast is switched in a backward pass or in a function of a higher-order operation");
}

/// The device that the call names, and what it sets.
struct Setting {
    torch_room::Modes::Autocast* autocast;
    Ref<> value;
};

Setting setting_of(Tracer& tracer, const Arguments& arguments, const char* device, torch_room::Modes& modes) {
    const std::vector<Value*>& given = arguments.positional;
    if (!arguments.keywords.empty() || given.empty() || given.size() > 2)
        refuse(tracer, "autocast is switched by a call with unusual arguments");
    Ref<> named = given.size() == 2 ? given[0]->as_constant(tracer) : checked(PyUnicode_FromString(device));
    tracer.realize(given.back());
    Ref<> value = given.back()->as_constant(tracer);
    if (!named || !PyUnicode_Check(named.get()) || !value)
        refuse(tracer, "autocast is switched by a call whose arguments are not constants");
    torch_room::Modes::Autocast* autocast = modes.autocast_of(autocast_device(tracer, named));
    if (autocast == nullptr) refuse(tracer, "autocast of an unsupported device is switched");
    return {autocast, std::move(value)};
}

graph::Node* set(Tracer& tracer, PyObject* function, const Arguments& arguments, const torch_room::Modes& modes) {
    expect_plain_graph(tracer);
    expect_no_open_autocast(tracer);
    graph::Node* node = tracer.recorder().emit_effect(function, arguments);
    // If the graph fails, the modes are restored.
    node->is_visible_to_program = false;
    tracer.modes().set_directly(modes);
    return node;
}

template <const char* kName, const char* kDevice>
Outcome set_enabled(Tracer& tracer, const Arguments& arguments) {
    torch_room::Modes modes = tracer.modes().current();
    const Setting setting = setting_of(tracer, arguments, kDevice, modes);
    if (!PyBool_Check(setting.value.get())) refuse(tracer, "autocast is switched to something that is no bool");
    setting.autocast->enabled = setting.value.get() == Py_True;
    set(tracer, function<kName>(), arguments, modes);
    return tracer.none();
}

template <const char* kName, const char* kDevice>
Outcome set_dtype(Tracer& tracer, const Arguments& arguments) {
    torch_room::Modes modes = tracer.modes().current();
    const Setting setting = setting_of(tracer, arguments, kDevice, modes);
    auto dtype = torch_room::as_dtype(setting.value.get());
    if (!dtype) refuse(tracer, "the dtype of autocast is set to something that is no dtype");
    setting.autocast->dtype = *dtype;
    set(tracer, function<kName>(), arguments, modes);
    return tracer.none();
}

Outcome set_cache(Tracer& tracer, const Arguments& arguments) {
    Ref<> value = arguments.count() == 1 && !arguments.positional.empty() ? arguments.positional[0]->as_constant(tracer)
                                                                          : Ref<>();
    if (!value || !PyBool_Check(value.get())) refuse(tracer, "the cache of autocast is set by an unusual call");
    torch_room::Modes modes = tracer.modes().current();
    modes.autocast_cache = value.get() == Py_True;
    set(tracer, function<kSetCache>(), arguments, modes)->location = nullptr;  // as in TorchDynamo's graphs
    return tracer.none();
}

/// How often autocast had been entered, and not left, when the trace began: guarded.
int nesting_at_entry(Tracer& tracer) {
    Answer answer = ask(tracer.provenance(), torch_room::autocast_nesting_function());
    Value* number = tracer.outside(answer.source, answer.object.get());
    tracer.realize(number);
    return static_cast<int>(PyLong_AsLong(answer.object.get()));
}

template <const char* kName, int kStep>
Outcome change_nesting(Tracer& tracer, const Arguments& arguments) {
    expect_plain_graph(tracer);
    expect_no_open_autocast(tracer);
    const int before = nesting_at_entry(tracer);
    // (The program may notice a cache that was kept or cleared.)
    tracer.recorder().emit_effect(function<kName>(), arguments)->location = nullptr;  // as in TorchDynamo's graphs
    tracer.modes().set_autocast_nesting(tracer.modes().autocast_nesting() + kStep);
    return tracer.integer(before + tracer.modes().autocast_nesting());
}

Outcome clear_cache(Tracer& tracer, const Arguments& arguments) {
    expect_plain_graph(tracer);
    tracer.recorder().emit_effect(function<kClear>(), arguments);
    return tracer.none();
}

FunctionValue* function_at(Tracer& tracer, PyObject* function) {
    Value* value = tracer.outside(tracer.provenance().pinned(function), function);
    tracer.realize(value);
    return cast<FunctionValue>(value);
}

/// `_enter_autocast(*vals)`: makes an `autocast` and calls its `__enter__`. As in torch._dynamo's graphs, what that
/// calls are nodes.
Task enter_by_hand(Tracer& tracer, Arguments arguments) {
    static auto* const autocast = imported("torch.amp.autocast_mode", "autocast");
    static PyObject* const is_available = imported("torch._C", "_is_autocast_available");
    static PyObject* const enter = checked(PyObject_GetAttrString(autocast, "__enter__")).release();
    if (Value* device = arguments.positional.empty() ? nullptr : arguments.positional[0])
        tracer.recorder().emit_effect(is_available, Arguments::of(device))->is_visible_to_program = false;
    Value* mode = co_await operations::call(tracer, tracer.constant(autocast), arguments);
    co_await tracer.push_call(function_at(tracer, enter), Arguments::of(mode));
    co_return mode;
}

Outcome enter_autocast_by_hand(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const enter = imported("torch.amp.autocast_mode", "_enter_autocast");
    if (tracer.modes().has_function_modes()) return tracer.push_call(function_at(tracer, enter), arguments);
    return tracer.start(enter_by_hand(tracer, arguments));
}

constexpr char kCpu[] = "cpu", kCuda[] = "cuda";

}  // namespace

void register_autocast_calls(Handlers& handlers) {
    handlers.add("torch", kSetEnabled, set_enabled<kSetEnabled, kCuda>);
    handlers.add("torch", kSetCpuEnabled, set_enabled<kSetCpuEnabled, kCpu>);
    handlers.add("torch", kSetDtype, set_dtype<kSetDtype, kCuda>);
    handlers.add("torch", kSetCpuDtype, set_dtype<kSetCpuDtype, kCpu>);
    handlers.add("torch", kSetGpuDtype, set_dtype<kSetGpuDtype, kCuda>);
    handlers.add("torch", kSetCache, set_cache);
    handlers.add("torch", kIncrement, change_nesting<kIncrement, 1>);
    handlers.add("torch", kDecrement, change_nesting<kDecrement, -1>);
    handlers.add("torch", kClear, clear_cache);
    handlers.add("torch.amp.autocast_mode", "_enter_autocast", enter_autocast_by_hand);
}

}  // namespace stator
