/// Nodes of the graph enter and leave hooks on saved tensors, and PyTorch calls the program's own functions where an
/// operation of the graph saves a tensor. A hook that packs is called while the graph runs, so it must neither change
/// anything nor read what the program changes (python/stator/saved_tensors.py). One that unpacks is called in the
/// backward pass, after all side effects of the region: it may do anything.
#include "value/tensor/saved_tensors.h"

#include <algorithm>
#include <array>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/settings.h"
#include "value/builtins/registry.h"
#include "value/deferred_graph.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/function.h"
#include "value/kinds/python_module.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
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

bool is_builtin_that_computes(PyObject* object) {
    static const std::array known = {imported("builtins", "len"),        imported("builtins", "tuple"),
                                     imported("builtins", "isinstance"), imported("builtins", "int"),
                                     imported("builtins", "float"),      imported("builtins", "bool")};
    return std::ranges::find(known, object) != known.end();
}

bool is_module_of_torch(const Value* value) {
    const auto* module = cast<PythonModuleValue>(value);
    if (module == nullptr) return false;
    const char* name = PyModule_GetName(module->held);
    if (name == nullptr) PyErr_Clear();
    return name != nullptr && (std::string_view(name) == "torch" || std::string_view(name).starts_with("torch."));
}

/// What a variable of the hook holds may be any number or string, PyTorch itself, and functions that only compute.
void check_variable(Tracer& tracer, Value* value, PyObject* name) {
    if (value != nullptr) {
        tracer.realize(value);
        if (is_module_of_torch(value)) return;
        if (value->source != nullptr && value->object() != nullptr && is_builtin_that_computes(value->object())) {
            tracer.guard({GuardKind::Identity, value->source, value->object()});
            return;
        }
        if (is_immutable_constant(tracer, value)) return;
    }
    refuse(tracer, "the one that packs reads " + std::string(utf8(name)) + ", which is no constant");
}

/// A global of the function. The hook reads the real one, which must be as the trace sees it.
Value* global_of(Tracer& tracer, const FunctionValue* function, PyObject* name) {
    for (PyObject* dict : {function->globals, function->builtins}) {
        if (dict == nullptr || !PyDict_CheckExact(dict)) refuse(tracer, "the globals of one are not a plain dict");
        auto* names = static_cast<DictValue*>(tracer.outside(tracer.provenance().pinned(dict), dict));
        tracer.realize(names);
        if (names->changed) refuse(tracer, "one reads globals, and the program has assigned to some");
        if (Value* found = names->find(tracer, name)) return found;
    }
    return nullptr;
}

void check_reads(Tracer& tracer, FunctionValue* function) {
    static PyObject* const reads_of = imported("stator.saved_tensors", "reads_of");
    Ref<> reads = checked(PyObject_CallOneArg(reads_of, reinterpret_cast<PyObject*>(function->code)));
    if (PyUnicode_Check(reads.get())) refuse(tracer, "the one that packs " + std::string(utf8(reads.get())));
    PyObject *globals = PyTuple_GET_ITEM(reads.get(), 0), *cells = PyTuple_GET_ITEM(reads.get(), 1);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(globals); ++i) {
        PyObject* name = tracer.keep(Ref<>::share(PyTuple_GET_ITEM(globals, i)));
        check_variable(tracer, global_of(tracer, function, name), name);
    }
    Ref<> free = checked(PyCode_GetFreevars(function->code));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(free.get()); ++i) {
        PyObject* name = PyTuple_GET_ITEM(free.get(), i);
        if (checked(PySequence_Contains(cells, name)) == 0) continue;
        CellValue* cell = function->closure_cell(tracer, static_cast<std::size_t>(i));
        Value* held = cell->get(tracer);
        const bool is_as_found = held != nullptr && held->source != nullptr && held->source->parent == cell->source;
        if (cell->source != nullptr && !is_as_found)
            refuse(tracer, "the one that packs reads " + std::string(utf8(name)) + ", which the program has changed");
        check_variable(tracer, held, name);
    }
}

/// The hook that packs as an object that the graph can hold.
Ref<> packing(Tracer& tracer, Value* hook) {
    tracer.realize(hook);
    auto* function = cast<FunctionValue>(hook);
    if (function == nullptr) refuse(tracer, "the one that packs is no Python function");
    check_reads(tracer, function);
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
