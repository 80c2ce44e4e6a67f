#include "capture/backend.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "capture/notes.h"
#include "capture/report.h"
#include "capture/settings.h"
#include "graph/captured.h"
#include "graph/runner.h"
#include "torch/function_modes.h"
#include "torch/function_transforms.h"
#include "torch/global_state.h"
#include "torch/second_backward.h"
#include "torch/settings.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"

namespace stator {

namespace {

/// The example inputs for a backend. An input that aliases another one and is written to is not a valid example: such
/// calls run the graph as it was captured.
Ref<> make_examples(const BackendTraits& traits, const GraphModule& module, std::span<PyObject* const> inputs) {
    const bool shares = !traits.runs_as_captured && !module.written.empty() &&
                        SharedMemory(inputs.size(), module.written).matters(inputs);
    Ref<> examples = checked(PyList_New(static_cast<Py_ssize_t>(inputs.size())));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        Ref<> example;
        if (torch_room::is_tensor(inputs[i])) {
            if (traits.takes_fakes) example = module.fake_example(i);
            if (!example && shares) example = torch_room::copy_with_own_memory(inputs[i]);
        } else if (!traits.runs_as_captured && !module.numbers[i].empty()) {
            example = module.number_example(i);
        }
        if (!example) example = Ref<>::share(inputs[i]);
        PyList_SET_ITEM(examples.get(), static_cast<Py_ssize_t>(i), example.release());
    }
    return examples;
}

Ref<> call_backend(const CompileOptions& options, Borrowed<> module, Borrowed<> examples) {
    Ref<> compiled =
        checked(PyObject_CallFunctionObjArgs(options.backend.get(), module.get(), examples.get(), nullptr));
    if (compiled.get() != module.get()) return compiled;
    // The graph itself: its forward runs without Python code in between, as long as the module has no hooks.
    return checked(PyObject_GetAttr(module, interned("forward")));
}

void note_needed_data(const TakenError& error, const Callee& callee) {
    Ref<> text = Ref<>::steal(PyObject_Str(error.exception()));
    if (!text) PyErr_Clear();
    std::string reason = text ? std::string(utf8(text.get())) : "?";
    issue_note(
        NoteKind::Warning, NoteOnce::AtPlace, "backend_needs_data", callee,
        "A graph of " + callee.print() +
            " runs as it was captured, without the backend, which can't compile it without the data of its tensors: " +
            reason.substr(0, reason.find('\n')) +
            ". fullgraph=True raises the backend's error; torch.compiler.disable on the function that needs the "
            "data leaves the rest to the backend.");
}

/// What the backend said, in one line.
std::string short_reason(const TakenError& error) {
    Ref<> text = Ref<>::steal(PyObject_Str(error.exception()));
    if (!text) PyErr_Clear();
    std::string reason = text ? std::string(utf8(text.get())).substr(0, 300) : "?";
    std::ranges::replace(reason, '\n', ' ');
    return reason;
}

void note_failure_on_jagged(const TakenError& error, const Callee& callee) {
    issue_note(NoteKind::Warning, NoteOnce::AtPlace, "backend_fails_on_nested_tensors", callee,
               "A graph of " + callee.print() +
                   " runs as it was captured, without the backend, which fails on what it does with nested tensors: " +
                   short_reason(error));
}

void note_failed_backend(const TakenError& error, const Callee& callee) {
    issue_note(
        NoteKind::Warning, NoteOnce::AtPlace, "backend_failed", callee,
        "A graph of " + callee.print() +
            " runs as it was captured, because the backend failed and torch._dynamo.config.suppress_errors is set: " +
            short_reason(error));
}

/// For torch's own log of it.
void tell_observer_of_failure(const TakenError& error, PyCodeObject* code) {
    if (capture_observer == nullptr) return;
    Ref<> observer = Ref<>::share(capture_observer);
    Ref<> told = Ref<>::steal(PyObject_CallMethod(observer.get(), "failed", "OO", code, error.exception().get()));
    if (!told) end_exception_of(observer.get());
}

/// The same if the program can run without the backend: if that needs the data of tensors, or raises an error that only
/// a backward pass would raise uncompiled, the graph runs as it was captured.
Ref<> compile_if_possible(const CompileOptions& options, const GraphModule& graph, Borrowed<> examples,
                          cpython::Frame* frame, bytecode::Index at) {
    const Borrowed<> module = graph.module.get();
    const std::size_t depth = torch_room::transform_depth();
    const torch_room::ForwardMode forward_mode = torch_room::ForwardMode::current();
    try {
        return call_backend(options, module, examples);
    } catch (const PythonError&) {
        TakenError error = TakenError::take();
        torch_room::leave_transforms(depth);
        forward_mode.restore();
        auto says = [&](const char* name) {
            Ref<> answer = Ref<>::steal(PyObject_GetAttrString(error.exception(), name));
            if (!answer) PyErr_Clear();
            return answer.get() == Py_True;
        };
        const bool needs_data = graph.depends_on_data || (says("needs_data") && !options.fullgraph);
        const bool is_suppressed =
            dynamo_switch("suppress_errors", "TORCHDYNAMO_SUPPRESS_ERRORS") && !options.fullgraph;
        // PyTorch's compilers support a part of what works uncompiled.
        const bool is_of_jagged = graph.has_jagged && traits_of(options.backend.get()).is_pytorchs;
        if (!needs_data && !says("fails_in_backward") && !is_suppressed && !is_of_jagged) {
            std::move(error).restore();
            throw;
        }
        if (is_suppressed) {
            note_failed_backend(error, callee_of(frame, at));
            tell_observer_of_failure(error, cpython::code_of(frame));
        } else if (needs_data) {
            note_needed_data(error, callee_of(frame, at));
        } else if (is_of_jagged) {
            note_failure_on_jagged(error, callee_of(frame, at));
        }
    }
    return checked(PyObject_GetAttr(module, interned("forward")));
}

/// How the backend runs the graph, as far as that is known.
Undo::By run_by(Borrowed<> compiled, const BackendTraits& traits) {
    if (graph::runner_of(compiled) != nullptr) return Undo::By::Runner;
    return traits.writes_at_end ? Undo::By::WritesAtEnd : Undo::By::Backend;
}

std::optional<BackendTraits::OwnRunner> own_runner(const Ref<>& options) {
    if (!options || !PyTuple_CheckExact(options.get()) || PyTuple_GET_SIZE(options.get()) != 3) return std::nullopt;
    auto is_on = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(options.get(), i) == Py_True; };
    return BackendTraits::OwnRunner{is_on(0) ? graph::Calls::Prepared : graph::Calls::AsCaptured,
                                    graph::recording_of(is_on(1), is_on(2))};
}

}  // namespace

BackendTraits traits_of(Borrowed<> backend) {
    auto attribute = [&](const char* name) {
        Ref<> value = Ref<>::steal(PyObject_GetAttr(backend, interned(name)));
        if (!value) PyErr_Clear();
        return value;
    };
    auto has = [&](const char* name) { return attribute(name).get() == Py_True; };
    return {own_runner(attribute("runner")), has("runs_as_captured"), has("is_pytorchs"), has("takes_fakes"),
            has("writes_at_end")};
}

void follow_resets() {
    static PyObject* const home = PyUnicode_InternFromString("torch._dynamo.eval_frame");
    static PyObject* const follow = imported("stator.torch_reset", "follow");
    if (PyDict_GetItemWithError(PyImport_GetModuleDict(), home) != nullptr) checked(PyObject_CallNoArgs(follow));
}

bool is_freezing() {
    PyObject* config = module_of_settings("torch._inductor.config");
    if (config == nullptr) return false;
    Ref<> freezing = checked(PyObject_GetAttr(config, interned("freezing")));
    return freezing.get() == Py_True;
}

namespace {

/// Symbols that the backend can't have become constants in the next attempt.
std::optional<Again> attempt_without_rejected(const BackendAssumptions& assumptions, const GraphModule& module,
                                              const Callee& callee) {
    const std::vector<std::size_t>& rejected = assumptions.rejected;
    if (rejected.empty()) return std::nullopt;
    if (!assumptions.failure.empty())
        issue_note(NoteKind::Information, NoteOnce::AtPlace, "backend_fails_on_symbols", callee,
                   "The backend fails on a graph of " + callee.print() +
                       " with dynamic sizes, so it gets constant sizes, and each new size is a recompile. It raises " +
                       assumptions.failure.substr(0, assumptions.failure.find('\n')) +
                       ". dynamic=False leaves out the first try.");
    Again again{.reason = "the backend can't have some of the numbers and sizes that change as symbols",
                .is_by_backend = true};
    for (std::size_t symbol : rejected)
        if (symbol < module.symbol_paths.size()) again.learned.backend_constants.insert(module.symbol_paths[symbol]);
    return again;
}

/// Raises an error if the backend specialized a size that the user has marked as dynamic.
void expect_dynamic(const BackendAssumptions& assumptions, const GraphModule& module) {
    for (std::size_t symbol : module.marked_symbols) {
        if (std::ranges::find(assumptions.fixed, symbol) == assumptions.fixed.end()) continue;
        std::string text =
            module.symbol_paths[symbol] + " is marked with torch._dynamo.mark_dynamic, but the backend specializes it";
        for (const BackendCondition& condition : assumptions.conditions)
            if (std::ranges::find(condition.terms, symbol, &Term::symbol) != condition.terms.end())
                text += ": " + condition.text;
        raise_constraint_violation(text + ". Use torch._dynamo.maybe_mark_dynamic, or another backend.");
    }
}

/// What calling one of our own backends comes to.
void run_here(GraphModule module, const BackendTraits::OwnRunner& runner, CompiledGraph& graph) {
    follow_resets();
    if (module.is_in_vain) return;
    graph.compiled = graph::make_runner(module.captured.get(), nullptr, runner.calls, runner.recording);
    graph::runner_of(graph.compiled.get());  // (Creates it now: a call should not wait for it.)
    graph.undo = std::move(module.undo);
    graph.undo.settle(Undo::By::Runner);
}

}  // namespace

std::variant<BackendResult, Again> compile(GraphModule module, const CompileOptions& options, const BackendModes& modes,
                                           cpython::Frame* frame, bytecode::Index at) {
    BackendResult result;
    CompiledGraph& graph = result.graph;
    graph.input_count = module.inputs.size();
    graph.of_classes = std::move(module.of_classes);
    graph.wrapped_numbers = std::move(module.wrapped_numbers);
    graph.draws = std::move(module.draws);
    graph.is_visible_to_program = module.is_visible_to_program;
    graph.has_custom_operations = module.has_custom_operations;
    graph.has_wrappers = module.has_wrappers;
    graph.enters_hooks = module.enters_hooks;
    torch_room::WithoutTorchFunctions without_torch_functions(module.has_wrappers);
    if (module.captured) {
        run_here(std::move(module), *traits_of(options.backend.get()).runner, graph);
        return result;
    }
    if (!module.module) return result;
    torch_room::WithoutFunctionModes without_function_modes(torch_room::has_function_modes_of_program());
    // aot_autograd fails on the gradients of oneDNN's LSTM, which returns an undefined tensor among those that it
    // saves.
    std::optional<torch_room::WithoutOneDnn> without_onednn;
    if (modes.with_grad_at_end && module.has_lstm) without_onednn.emplace();
    // A compiler that traces the graph runs the calls that change settings.
    torch_room::KeepSettings settings;
    const BackendTraits traits = traits_of(options.backend.get());
    const std::vector<PyObject*> inputs = module.borrowed_inputs();
    Ref<> as_captured = checked(PyObject_GetAttr(module.module.get(), interned("forward")));
    const bool is_kept = modes.is_kept_as_captured && !traits.runs_as_captured;
    if (!is_kept || !traits.is_pytorchs) {
        Ref<> examples = make_examples(traits, module, inputs);
        graph.compiled = compile_if_possible(options, module, examples.get(), frame, at);
    }
    if (module.is_in_vain) {
        graph.compiled = nullptr;
        return result;
    }
    if (is_kept) graph.compiled = Ref<>::share(as_captured.get());
    graph.undo = std::move(module.undo);
    graph.undo.settle(run_by(graph.compiled.get(), traits));
    if (graph::runner_of(graph.compiled.get()) == nullptr) {
        graph.as_captured = std::move(as_captured);
        if (!module.written.empty() && inputs.size() > 1)
            graph.shared_memory = SharedMemory(inputs.size(), module.written);
        graph.is_recorded = (modes.with_grad_at_start || modes.with_grad_at_end) &&
                            std::ranges::any_of(inputs, torch_room::requires_gradient);
        graph.is_repeatable = graph.is_recorded && module.is_pure && module.written.empty();
    }
    if (module.symbol_paths.empty()) return result;
    BackendAssumptions assumptions = assumptions_of(module.module.get());
    if (auto again = attempt_without_rejected(assumptions, module, callee_of(frame, at))) return std::move(*again);
    expect_dynamic(assumptions, module);
    result.conditions = std::move(assumptions.conditions);
    return result;
}

}  // namespace stator
