/// Nodes of the graph enter and leave hooks on saved tensors, and PyTorch calls the program's own functions where an
/// operation of the graph saves a tensor. A hook that packs is called while the graph runs, so it must neither change
/// anything nor read what the program changes (computing_functions.h). One that unpacks is called in the
/// backward pass, after all side effects of the region: it may do anything.
#include "value/tensor/saved_tensors.h"

#include <algorithm>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/settings.h"
#include "value/builtins/registry.h"
#include "value/deferred_graph.h"
#include "value/kinds/constant.h"
#include "value/kinds/function.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/computing_functions.h"
#include "value/tensor/function_modes.h"
#include "value/tensor/hooks.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

PyObject* enter_function() {
    static PyObject* const enter = imported("stator.saved_tensors", "enter_pair");
    return enter;
}

[[noreturn]] void refuse(Tracer& tracer, const std::string& why) {
    tracer.break_graph(BreakKind::UnsupportedTensor, "hooks on saved tensors: " + why);
}

/// The hook that packs as an object that the graph can hold.
Ref<> packing(Tracer& tracer, Value* hook) {
    tracer.realize(hook);
    auto* function = cast<FunctionValue>(hook);
    if (function == nullptr) refuse(tracer, "the one that packs is no Python function");
    expect_only_computes(tracer, function, {"hooks on saved tensors: the one that packs"});
    Ref<> real = real_hook(tracer, hook, Cells::Settled);
    if (!real) refuse(tracer, "the one that packs captures values that may change");
    return real;
}

Ref<> unpacking(Tracer& tracer, Value* hook) {
    tracer.realize(hook);
    Ref<> real = real_hook(tracer, hook, Cells::Settled);
    if (!real) refuse(tracer, "the one that unpacks captures values that may change");
    return real;
}

void expect_captured(Tracer& tracer) {
    if (tracer.run_by() == Tracer::RunBy::Compiler)
        refuse(tracer, "they are entered in a function that a backend compiles, which decides itself what to save");
    if (tracer.deferred_graphs().is_open() || tracer.recorder().is_in_transform())
        refuse(tracer, "they are entered in a backward pass, a transform, or a function of a higher-order operation");
    if (tracer.modes().captures_autograd()) refuse(tracer, "they are entered where gradients are captured");
    if (torch_room::current_settings().saved_hooks_disabled) refuse(tracer, "they are entered where they are disabled");
    expect_no_function_modes(tracer, "a hook on saved tensors is entered");
}

Outcome enter_hooks(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const maker = imported("stator.saved_tensors", "EnterHooks");
    static PyObject* const leave = imported("stator.saved_tensors", "leave");
    expect_captured(tracer);
    if (arguments.positional.size() != 2 || !arguments.keywords.empty())
        refuse(tracer, "they are entered with other arguments than two functions");
    Value *pack = arguments.positional[0], *unpack = arguments.positional[1];
    Ref<> packs = packing(tracer, pack), unpacks = unpacking(tracer, unpack);
    PyObject* target = tracer.keep(checked(PyObject_CallFunctionObjArgs(maker, packs.get(), unpacks.get(), nullptr)));
    graph::Node* node = tracer.recorder().emit_effect(target, {});
    // If the graph fails, they are left: the program can't observe that they were entered.
    node->is_visible_to_program = false;
    tracer.modes().push_context({make_tuple(tracer, {pack, unpack}), enter_function(), leave, node,
                                 tracer.modes().current(), TorchModes::Restores::Nothing});
    return tracer.none();
}

Outcome leave_hooks(Tracer& tracer, const Arguments& arguments) {
    const std::vector<TorchModes::EnteredContext>& open = tracer.modes().contexts();
    auto innermost =
        std::ranges::find(open.rbegin(), open.rend(), enter_function(), &TorchModes::EnteredContext::enter);
    if (arguments.count() != 0 || innermost == open.rend())
        refuse(tracer, "they are left here, and were entered before the captured region");
    if (tracer.deferred_graphs().is_open()) refuse(tracer, "they are left in a backward pass");
    tracer.modes().pop_context(innermost->manager);
    return tracer.none();
}

}  // namespace

void expect_no_saved_tensors_hooks(Tracer& tracer, const char* what) {
    const std::vector<TorchModes::EnteredContext>& open = tracer.modes().contexts();
    if (std::ranges::find(open, enter_function(), &TorchModes::EnteredContext::enter) != open.end())
        tracer.break_graph(BreakKind::UnsupportedTensor, std::string(what) + " inside of hooks on saved tensors");
}

void register_saved_tensors(Handlers& handlers) {
    handlers.add("torch._C._autograd", "_push_saved_tensors_default_hooks", enter_hooks);
    handlers.add("torch._C._autograd", "_pop_saved_tensors_default_hooks", leave_hooks);
}

}  // namespace stator
