/// From a frame to an entry: trace, graph module, backend.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "bytecode/code.h"
#include "cpython/objects.h"
#include "graph/captured.h"
#include "run/cache.h"
#include "run/collective.h"
#include "run/notes.h"
#include "run/numbers.h"
#include "run/recording.h"
#include "run/report.h"
#include "run/settings.h"
#include "shape/failing.h"
#include "torch/fake.h"
#include "torch/global_state.h"
#include "torch/second_backward.h"
#include "torch/tensor.h"
#include "trace/interpreter.h"
#include "value/compiling.h"
#include "value/function.h"
#include "value/lazy_modules.h"

namespace stator {

namespace {

/// A capture makes thousands of objects that live on, and none that only the collector could free.
class CollectorPaused {
  public:
    CollectorPaused() : was_enabled_(PyGC_Disable()) {}
    ~CollectorPaused() { resume(); }
    void resume() {
        if (std::exchange(was_enabled_, 0) != 0) PyGC_Enable();
    }
    CollectorPaused(const CollectorPaused&) = delete;
    CollectorPaused& operator=(const CollectorPaused&) = delete;

  private:
    int was_enabled_;
};

/// A fake tensor in the mode that a cell of stator.fake holds, made when it is first asked for.
Ref<> make_example(PyObject* cell, const torch_room::TensorMeta& meta) {
    Ref<> mode = checked(PyObject_CallMethodNoArgs(cell, interned("get")));
    return torch_room::make_fake(mode.get(), meta);
}

struct GraphModule {
    Ref<> module;
    std::size_t nodes;
};

Ref<> dict_of(const std::vector<Attribute>& attributes) {
    Ref<> dict = checked(PyDict_New());
    for (const Attribute& attribute : attributes)
        checked(PyDict_SetItemString(dict.get(), attribute.name.c_str(), attribute.tensor.get()));
    return dict;
}

GraphModule make_graph_module(std::unique_ptr<graph::Graph> graph, const std::vector<Attribute>& attributes) {
    static PyObject* graph_module_class = imported("stator.graph_module", "GraphModule");
    static PyObject* mode_cell = imported("stator.fake", "ModeCell");
    Ref<> cell = checked(PyObject_CallNoArgs(mode_cell));
    std::size_t nodes = graph->size();
    Ref<> captured = graph::make_captured(std::move(graph), {make_example, cell});
    PyObject* arguments[] = {graph_module_class, captured.get(), nullptr};
    Ref<> held = attributes.empty() ? Ref<>() : dict_of(attributes);
    arguments[2] = held.get();
    Ref<> module =
        checked(PyObject_VectorcallMethod(interned("from_captured"), arguments, attributes.empty() ? 2 : 3, nullptr));
    Ref<> state = checked(PyObject_GetAttr(module.get(), interned("__dict__")));
    checked(PyDict_SetItem(state.get(), interned("_stator_fake_mode"), cell.get()));
    return {std::move(module), nodes};
}

/// What a backend says of itself: see stator.backends.
struct BackendTraits {
    bool runs_as_captured = false;
    bool is_pytorchs = false;
    bool takes_fakes = false;
    bool writes_at_end = false;
};

BackendTraits traits_of(Borrowed<> backend) {
    auto has = [&](const char* name) {
        Ref<> value = Ref<>::steal(PyObject_GetAttrString(backend, name));
        if (!value) PyErr_Clear();
        return value.get() == Py_True;
    };
    return {has("runs_as_captured"), has("is_pytorchs"), has("takes_fakes"), has("writes_at_end")};
}

/// A fake tensor in the place of an input; empty where PyTorch has none for it. The mode that a tensor was made in says
/// nothing of the mode that a backend runs in.
Ref<> fake_example(Borrowed<> module, PyObject* input) {
    try {
        torch_room::TensorMeta meta = torch_room::read_meta(input);
        meta.dispatch_keys &= ~torch_room::trait::kInference;
        Ref<> state = checked(PyObject_GetAttr(module, interned("__dict__")));
        PyObject* cell = PyDict_GetItemWithError(state.get(), interned("_stator_fake_mode"));
        return cell == nullptr ? Ref<>() : make_example(cell, meta);
    } catch (const PythonError&) {
        PyErr_Clear();
        return {};
    }
}

/// What a backend gets to see of the inputs. One that shares its memory with another one, and is written to, is no
/// example of what the compiled code will get: such calls run the graph as it was captured.
Ref<> make_examples(const BackendTraits& traits, Borrowed<> module, std::span<PyObject* const> inputs,
                    std::span<const std::size_t> written) {
    bool shares = !traits.runs_as_captured && !written.empty() && SharedMemory(inputs.size(), written).matters(inputs);
    Ref<> examples = checked(PyList_New(static_cast<Py_ssize_t>(inputs.size())));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        Ref<> example;
        if (torch_room::is_tensor(inputs[i])) {
            if (traits.takes_fakes) example = fake_example(module, inputs[i]);
            if (!example && shares) example = torch_room::copy_with_own_memory(inputs[i]);
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
    // The graph itself: its forward runs without Python in between, as long as nobody hangs hooks on the module.
    return checked(PyObject_GetAttr(module, interned("forward")));
}

void tell_of_needed_data(const TakenError& error, const Callee& callee) {
    Ref<> text = Ref<>::steal(PyObject_Str(error.exception()));
    if (!text) PyErr_Clear();
    std::string reason = text ? std::string(utf8(text.get())) : "?";
    tell(NoteKind::Warning, NoteOnce::AtPlace, "backend_needs_data", callee,
         "A graph of " + callee.print() +
             " runs as it was captured, without the backend, which can't compile it without knowing what its tensors "
             "hold: " +
             reason.substr(0, reason.find('\n')) +
             ". fullgraph=True raises the backend's error; torch.compiler.disable on the function that needs the "
             "contents of tensors leaves the rest to the backend.");
}

/// Sizes are numbers in every graph, whatever a tensor is marked with.
void tell_of_marked_sizes(const std::vector<Source*>& inputs, cpython::Frame* frame) {
    static PyObject* const decorators = PyUnicode_InternFromString("torch._dynamo.decorators");
    if (PyDict_GetItemWithError(PyImport_GetModuleDict(), decorators) == nullptr) return;
    static PyObject* const names[] = {interned("_dynamo_dynamic_indices"), interned("_dynamo_weak_dynamic_indices"),
                                      interned("_dynamo_unbacked_indices")};
    for (const Source* source : inputs) {
        if (!torch_room::is_tensor(source->object)) continue;
        PyObject* held = cpython::instance_dict_if_made(source->object);
        if (held == nullptr || PyDict_GET_SIZE(held) == 0) continue;
        for (PyObject* name : names) {
            if (PyDict_GetItemWithError(held, name) == nullptr) continue;
            const Callee callee = callee_of(frame, {0});
            tell(NoteKind::Warning, NoteOnce::InProcess, "marked_dynamic", callee,
                 callee.print() + " is called with " + path(*source) +
                     ", which is marked as having dynamic sizes (torch._dynamo.mark_dynamic). Stator specializes on "
                     "sizes: each new size is captured again, up to stator.config.recompile_limit times. This is told "
                     "once.");
            return;
        }
    }
}

/// The same where the program may go on without the backend: if that can't do without what the tensors hold, or fails
/// where only a backward pass of the program would, the graph runs as it was captured.
Ref<> compile_if_possible(const CompileOptions& options, Borrowed<> module, Borrowed<> examples, cpython::Frame* frame,
                          bytecode::Index at) {
    try {
        return call_backend(options, module, examples);
    } catch (const PythonError&) {
        TakenError error = TakenError::take();
        auto says = [&](const char* name) {
            Ref<> answer = Ref<>::steal(PyObject_GetAttrString(error.exception(), name));
            if (!answer) PyErr_Clear();
            return answer.get() == Py_True;
        };
        if ((options.fullgraph || !says("needs_data")) && !says("fails_in_backward")) {
            std::move(error).restore();
            throw;
        }
        if (says("needs_data")) tell_of_needed_data(error, callee_of(frame, at));
    }
    return checked(PyObject_GetAttr(module, interned("forward")));
}

/// Whether inductor will fold a model's parameters into its code: then it wants them in the graph module.
bool is_freezing() {
    static PyObject* const name = PyUnicode_InternFromString("torch._inductor.config");
    PyObject* config = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
    if (config == nullptr) return false;
    Ref<> freezing = checked(PyObject_GetAttr(config, interned("freezing")));
    return freezing.get() == Py_True;
}

bool has_work(const graph::Graph& graph) {
    for (const graph::Node* node : graph.nodes())
        if (node->kind != graph::NodeKind::Placeholder && node->kind != graph::NodeKind::Output) return true;
    return false;
}

bool has_lstm(const graph::Graph& graph) {
    static PyObject* const lstm = imported("torch", "lstm");
    return std::ranges::any_of(graph.nodes(), [](const graph::Node* node) { return node->target == lstm; });
}

/// What the backend made of the graph, as far as that is known.
Undo::By run_by(Borrowed<> compiled, const BackendTraits& traits) {
    if (graph::runner_of(compiled) != nullptr) return Undo::By::Runner;
    return traits.writes_at_end ? Undo::By::WritesAtEnd : Undo::By::Backend;
}

bool has_custom_operations(const graph::Graph& graph) {
    return std::ranges::any_of(graph.nodes(), [](const graph::Node* node) {
        return node->may_fail && shape::is_custom({node->kind, node->target, node->arguments, node->keywords});
    });
}

/// Whether functions have the code that was traced. What a trace runs may have given them another one.
bool has_traced_code(std::span<const Guard> guards) {
    return std::ranges::all_of(guards, [](const Guard& guard) {
        if (guard.kind != GuardKind::Function || guard.source->value == nullptr) return true;
        auto* function = cast<FunctionValue>(guard.source->value);
        return function == nullptr ||
               cpython::code_of(reinterpret_cast<PyFunctionObject*>(guard.expected)) == function->code;
    });
}

/// Whether a second run would draw other random numbers, or be seen.
bool has_effects(const graph::Graph& graph) {
    return std::ranges::any_of(graph.nodes(), [](const graph::Node* node) { return node->is_random || node->is_seen; });
}

bool is_seen(const graph::Graph& graph) {
    return std::ranges::any_of(graph.nodes(), [](const graph::Node* node) { return node->is_seen; });
}

}  // namespace

namespace {

std::size_t captures = 0;

}  // namespace

std::size_t capture_count() {
    return captures;
}

Shared<Entry> EntryCache::capture(cpython::Frame* frame, bytecode::Index at, const CompileOptions& options,
                                  Learnt& learnt, CaptureReport& report) {
    Stopwatch watch;
    // The frame's own code was decoded before.
    report.times.emplace_back("decode", bytecode::take_decoding_seconds());
    PyCodeObject* code = cpython::code_of(frame);
    report.code = Ref<PyCodeObject>::share(code);
    torch_room::GlobalState state = torch_room::snapshot_global_state();
    CollectorPaused paused;
    std::size_t stack_depth = at.value == 0 ? 0 : cpython::stack(frame).size();
    Interpreter interpreter(cpython::function_of(frame), code, cpython::slots(frame), at, stack_depth,
                            cpython::is_generator_frame(frame), &learnt.numbers);
    if (options.registers_attributes || (!interpreter.modes().grad && is_freezing())) interpreter.register_attributes();
    interpreter.call_whole(&learnt.called_whole);
    if (options.fullgraph) interpreter.follow_compiled_by_torch();
    const BackendTraits traits = traits_of(options.backend.get());
    interpreter.set_run_by(traits.runs_as_captured ? Tracer::RunBy::Stator : Tracer::RunBy::Compiler,
                           options.fullgraph);
    took_compiling_answer();
    Interpreter::End end = interpreter.run();
    state.reads_autocast = interpreter.reads_autocast();
    report.mismatched_calls = interpreter.mismatched_calls();
    double decoding = bytecode::take_decoding_seconds();
    report.times.back().second += decoding;
    double traced = watch.lap(), shapes = watch.seconds_of(interpreter.shape_ticks());
    report.times.emplace_back("trace", traced - decoding - shapes);
    report.times.emplace_back("shapes", shapes);
    // Each module is lazy once, so this ends.
    if (took_initialised_module()) return capture(frame, at, options, learnt, report);
    if (end == Interpreter::End::Broke && !options.fullgraph) {
        // Each is added once, so this ends.
        PyCodeObject* whole = interpreter.function_without_tensors();
        if (whole != nullptr && learnt.called_whole.emplace(whole, Ref<PyCodeObject>::share(whole)).second) {
            called_whole_.emplace(whole, Ref<PyCodeObject>::share(whole));
            const Callee called = callee_of(whole);
            tell(NoteKind::Information, NoteOnce::AtPlace, "called_whole", called,
                 called.print() + " breaks the graph of " + callee_of(code).print() +
                     " and works on no tensors: from now on it is called as it is, uncompiled. stator.explain tells "
                     "what broke.");
            return capture(frame, at, options, learnt, report);
        }
    }
    // Uncompiled it may go another way, and not raise.
    bool raises = end == Interpreter::End::Broke && (interpreter.report().kind == BreakKind::Raise ||
                                                     interpreter.report().kind == BreakKind::OperationFails);
    if (took_compiling_answer() && raises && !options.fullgraph) end = Interpreter::End::Failed;
    if (end == Interpreter::End::Failed || (end == Interpreter::End::Broke && is_failure(interpreter.report().kind)))
        report.broken = &interpreter.report();
    if (end == Interpreter::End::Failed && interpreter.report().kind == BreakKind::Internal) {
        if (std::string place = record_failed_trace(frame, at, interpreter.report()); !place.empty())
            interpreter.add_to_reason("; stator.replay('" + place + "') runs this trace again");
        if (setting("raise_internal_errors", 0) != 0) {
            publish(report);
            raise_unsupported(interpreter.report());
        }
    }
    if (report.broken != nullptr && options.fullgraph) {
        if (interpreter.followed_compiled_by_torch())
            interpreter.add_to_reason(
                "; the program calls something that torch.compile made, which is traced through because of "
                "fullgraph=True, and would run as it is without");
        publish(report);
        raise_unsupported(interpreter.report());
    }
    if (end == Interpreter::End::Failed) {
        Trace nothing = interpreter.take_trace();
        auto entry = Shared<Entry>::make(code, at, std::move(state), GuardProgram(nothing.guards, {}));
        publish(report);
        if (interpreter.report().kind == BreakKind::Internal) warn_of_internal_error(interpreter.report());
        return entry;
    }
    Trace trace = interpreter.take_trace();
    if (!has_traced_code(trace.guards)) return nullptr;
    std::vector<Source*> fetched = trace.inputs;
    fetched.insert(fetched.end(), trace.fetched.begin(), trace.fetched.end());
    Shared<Entry> entry;
    try {
        entry = Shared<Entry>::make(code, at, std::move(state), GuardProgram(trace.guards, fetched, trace.distinct));
    } catch (const PythonError&) {
        // A tensor that PyTorch does not tell the metadata of: the program will hear of it where it is used.
        PyErr_Clear();
        tell(NoteKind::Information, NoteOnce::AtPlace, "no_metadata", callee_of(frame, at),
             callee_of(frame, at).print() + " runs uncompiled: PyTorch does not tell the sizes of one of its tensors.");
        return nullptr;
    }
    report.times.emplace_back("guards", watch.lap());
    report.is_captured = true;
    entry->is_captured = true;
    entry->input_count = trace.inputs.size();
    entry->plan = std::move(trace.plan);
    entry->is_seen = is_seen(*trace.graph);
    entry->has_custom_operations = has_custom_operations(*trace.graph);
    tell_of_marked_sizes(trace.inputs, frame);
    std::vector<PyObject*> inputs;
    std::vector<Ref<>> views;
    for (Source* source : trace.inputs) {
        bool is_of_class = torch_room::is_tensor(source->object) && !torch_room::is_plain_tensor(source->object);
        if (is_of_class) {
            entry->of_classes.push_back(static_cast<std::uint32_t>(inputs.size()));
            views.push_back(torch_room::plain_view(source->object));
        }
        inputs.push_back(is_of_class ? views.back().get() : source->object);
    }
    if (report_listener != nullptr) {
        report.graph_text = graph::print(*trace.graph);
        report.plan_text = print(entry->plan);
        report.guards = entry->guards.print();
        watch.lap();  // printing is no part of a capture
    }
    if (has_work(*trace.graph)) {
        // aot_autograd fails on the gradients of oneDNN's LSTM, which saves nothing in one of its places.
        std::optional<torch_room::WithoutOneDnn> without_onednn;
        if (interpreter.modes().grad && has_lstm(*trace.graph)) without_onednn.emplace();
        entry->undo = Undo(*trace.graph, inputs, trace.written);
        const bool is_repeatable = !has_effects(*trace.graph);
        GraphModule module = make_graph_module(std::move(trace.graph), trace.attributes);
        report.nodes = module.nodes;
        report.times.emplace_back("fx", watch.lap());
        describe_numbers(module.module.get(), trace.inputs, trace.guards);
        paused.resume();
        const BreakReport* ends_by = end == Interpreter::End::Broke ? &interpreter.report() : nullptr;
        if (auto changing = run_compiler_collective(module.module.get(), inputs, trace.guards, report, ends_by);
            !changing.empty()) {
            // Each time more numbers are variables; those that can't be are no longer asked about.
            bool is_new = false;
            for (const std::string& place : changing) {
                is_new |= learnt.numbers.changing.insert(place).second;
                dynamic_[code].changing.insert(place);
            }
            if (is_new) return capture(frame, at, options, learnt, report);
        }
        Ref<> as_captured = checked(PyObject_GetAttr(module.module.get(), interned("forward")));
        const bool is_kept = interpreter.is_kept_as_captured() && !traits.runs_as_captured;
        if (!is_kept || !traits.is_pytorchs) {
            Ref<> examples = make_examples(traits, module.module.get(), inputs, trace.written);
            entry->compiled = compile_if_possible(options, module.module.get(), examples.get(), frame, at);
        }
        if (is_kept) entry->compiled = Ref<>::share(as_captured.get());
        entry->undo.settle(run_by(entry->compiled.get(), traits));
        if (graph::runner_of(entry->compiled.get()) == nullptr) {
            entry->as_captured = std::move(as_captured);
            if (!trace.written.empty() && inputs.size() > 1)
                entry->shared_memory = SharedMemory(inputs.size(), trace.written);
            entry->is_recorded = (entry->state.modes.grad || interpreter.modes().grad) &&
                                 std::ranges::any_of(inputs, torch_room::requires_gradient);
            entry->is_repeatable = entry->is_recorded && is_repeatable && trace.written.empty();
        }
        if (auto constants = burned_in(module.module.get(), trace.inputs); !constants.empty()) {
            // Each time there are fewer numbers that are variables, so this ends.
            for (Source* source : constants) {
                learnt.numbers.fixed.insert(path(*source));
                dynamic_[code].fixed.insert(path(*source));
            }
            return capture(frame, at, options, learnt, report);
        }
        report.times.emplace_back("backend", watch.lap());
    }
    ++captures;
    publish(report);
    return entry;
}

}  // namespace stator
