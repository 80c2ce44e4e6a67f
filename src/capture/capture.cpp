#include "capture/capture.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/collector_paused.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/stopwatch.h"
#include "bytecode/code.h"
#include "capture/backend.h"
#include "capture/dynamic_settings.h"
#include "capture/failed_traces.h"
#include "capture/graph_module.h"
#include "capture/guard_filter.h"
#include "capture/notes.h"
#include "capture/rank_agreement.h"
#include "capture/settings.h"
#include "capture/symbol_names.h"
#include "capture/symbol_report.h"
#include "cpython/objects.h"
#include "torch/tensor.h"
#include "value/kinds/function.h"

namespace stator {

namespace {

using Attempt = std::variant<Shared<Entry>, Again>;

std::size_t captures = 0;

/// Records the time of each stage for the report.
class StageClock {
  public:
    /// The frame's own code was decoded before.
    StageClock(CaptureReport& report, PyCodeObject* code) : report_(report) {
        report_.add_time("decode", bytecode::decode(code).decoding_seconds_for_first_report());
    }
    void end(const char* stage) { report_.add_time(stage, watch_.lap()); }
    /// Some parts of a trace are reported separately.
    void end_trace(const Trace& trace) {
        const double all = watch_.lap(), shapes = watch_.seconds_of(trace.shape_ticks);
        report_.add_time("decode", trace.decoding_seconds);
        report_.add_time("trace", all - trace.decoding_seconds - shapes);
        report_.add_time("shapes", shapes);
    }
    /// The time since then is not part of the capture.
    void skip() { watch_.lap(); }

  private:
    CaptureReport& report_;
    Stopwatch watch_;
};

/// Whether functions still have the code that was traced. Code that runs during a trace may have replaced it.
bool has_traced_code(std::span<const Guard> guards) {
    return std::ranges::all_of(guards, [](const Guard& guard) {
        if (guard.kind != GuardKind::Function || guard.source->value == nullptr) return true;
        auto* function = cast<FunctionValue>(guard.source->value);
        return function == nullptr ||
               cpython::code_of(reinterpret_cast<PyFunctionObject*>(guard.expected)) == function->code;
    });
}

// --- the end of a trace without an entry that runs

[[noreturn]] void raise_with(CaptureReport& report) {
    publish(report);
    raise_unsupported(*report.broken);
}

/// Whether the capture began behind the call of a disabled function and ends at the same call: a loop has come back to
/// it. That is the graph break which was reported when the program came there first.
bool is_same_break_in_loop(const CaptureRequest& request, const Trace& trace) {
    return trace.end == TraceEnd::Broke && trace.report.kind == BreakKind::DisabledFunction &&
           trace.plan.frames.size() == 1 && bytecode::Index{trace.plan.frames.front().instruction}.next() == request.at;
}

/// Whether an exception left the function that the program may not raise with `is_compiling()` False.
bool may_raise_for_compilers_alone(const Trace& trace) {
    const bool raises = trace.report.kind == BreakKind::Raise || trace.report.kind == BreakKind::OperationFails;
    return raises && trace.is_compiling_was_true;
}

/// Decides what a graph break means for the capture, and reports it. Throws PythonError if the program requires an
/// error.
void judge_break(const CaptureRequest& request, Trace& trace, CaptureReport& report) {
    if (trace.end == TraceEnd::Returned || trace.captures_calls) return;
    const bool has_broken = trace.end == TraceEnd::Broke;
    if (has_broken && may_raise_for_compilers_alone(trace) && !request.options.fullgraph) trace.end = TraceEnd::Failed;
    const bool has_failed = trace.end == TraceEnd::Failed;
    if (has_failed && trace.report.kind == BreakKind::Internal)
        if (std::string place = record_failed_trace(request.frame, request.at, trace.report); !place.empty())
            trace.report.reason += "; stator.replay('" + place + "') runs this trace again";
    const bool is_reported = has_failed || (is_failure(trace.report.kind) && !is_same_break_in_loop(request, trace));
    if (is_reported && request.options.fullgraph && trace.inlined_torch_compile)
        trace.report.reason +=
            "; the program calls a function or module compiled by torch.compile, which is inlined because of "
            "fullgraph=True, and would otherwise run as its own backend compiled it";
    if (is_reported) report.broken = trace.report;
    const bool is_error = has_failed && trace.report.kind == BreakKind::Internal;
    if (is_error && setting("suppress_errors", 1) == 0) raise_with(report);
    if (is_reported && (request.options.fullgraph || trace.forbids_breaks)) raise_with(report);
}

/// An entry without a graph: frames for which the guards hold run uncompiled, and are not traced again.
Shared<Entry> make_entry(const CaptureRequest& request, torch_room::GlobalState state, GuardProgram guards) {
    return Shared<Entry>::make(cpython::code_of(request.frame), request.at, std::move(state), std::move(guards));
}

void describe(const Trace& trace, const GuardProgram& guards, CaptureReport& report) {
    report.graph_text = graph::print(*trace.graph);
    report.describe_places(trace);
    report.plan_text = print(trace.plan);
    report.guards = guards.print();
    report.guard_steps = guards.print_steps();
    report.describe_numbers(trace);
}

// --- the stages

/// Nothing if the metadata of a tensor can't be read: the program will raise that error where it uses the tensor.
std::optional<GuardProgram> make_guards(const CaptureRequest& request, const Trace& trace, const KeptGuards& kept) {
    std::vector<Source*> fetched = trace.inputs;
    for (const DrawnInput& draw : trace.draws) fetched[draw.input] = fetched[draw.input]->parent;
    fetched.insert(fetched.end(), trace.fetched.begin(), trace.fetched.end());
    std::vector<const Expression*> symbols;
    for (const Symbol& symbol : trace.symbols) symbols.push_back(symbol.variable);
    try {
        return GuardProgram(kept.guards ? *kept.guards : trace.guards, fetched, trace.distinct, symbols);
    } catch (const PythonError&) {
        PyErr_Clear();
        const Callee callee = callee_of(request.frame, request.at);
        issue_note(NoteKind::Information, NoteOnce::AtPlace, "no_metadata", callee,
                   callee.print() +
                       " runs uncompiled: PyTorch raises an error when the sizes of one of its tensors are read.");
        return std::nullopt;
    }
}

/// For compilers that ask the tracing context of torch.compile. Not in the module's own dict, of which they pickle all
/// for the keys of their caches: code objects can't be pickled.
void show_traced_code(const Trace& trace, Borrowed<> module) {
    Ref<> codes = checked(PyList_New(0));
    for (const Ref<PyCodeObject>& code : trace.traced_code)
        checked(PyList_Append(codes.get(), reinterpret_cast<PyObject*>(code.get())));
    Ref<> cell = checked(PyObject_GetAttr(module, interned("_stator_fake_mode")));
    checked(PyObject_SetAttrString(cell.get(), "traced_code", codes.get()));
}

Attempt attempt(const CaptureRequest& request, const Knowledge& knowledge, CaptureReport& report) {
    CollectorPaused paused;
    StageClock clock(report, cpython::code_of(request.frame));
    torch_room::GlobalState state = torch_room::snapshot_global_state();

    TraceRequest to_trace = request.for_trace();
    if (report.trace_log) to_trace.log = &*report.trace_log;
    std::variant<Trace, Again> traced = stator::trace(to_trace, knowledge);
    if (auto* again = std::get_if<Again>(&traced)) {
        clock.end("trace");
        return std::move(*again);
    }
    Trace& trace = std::get<Trace>(traced);
    clock.end_trace(trace);
    state.reads_autocast = trace.reads_autocast;
    state.reads_numpy_errors = trace.reads_numpy_errors;
    report.mismatched_calls = trace.mismatched_calls;
    if (trace.graph) name_size_placeholders(trace);
    if (report.trace_log && trace.graph) report.trace_log->name_nodes(*trace.graph);
    if (report.trace_log) report.trace_log->name_guards(trace.guards);
    judge_break(request, trace, report);
    if (trace.end == TraceEnd::Failed) {
        Shared<Entry> failed = make_entry(request, std::move(state), GuardProgram(trace.guards, {}));
        failed->is_for_compilers = may_raise_for_compilers_alone(trace);
        failed->captures_calls =
            trace.captures_calls || failed->is_for_compilers || trace.report.kind == BreakKind::GraphBreakCall;
        return failed;
    }
    if (!has_traced_code(trace.guards)) return nullptr;

    const KeptGuards kept = filter_guards(request.options, trace);
    std::optional<GuardProgram> guards = make_guards(request, trace, kept);
    if (!guards) return nullptr;
    clock.end("guards");
    expect_dynamic(trace);
    log_symbols(trace, request.frame, request.at);
    if (report.has_texts) {
        describe(trace, *guards, report);
        tell_observer_of_trace(report);
        clock.skip();
    }

    const bool agrees = shared_setting("enable_compiler_collectives", 0) != 0;
    const bool runs_here = traits_of(request.options.backend.get()).runner.has_value();
    const bool is_read = !runs_here || agrees || capture_observer != nullptr || report.trace_log;
    GraphModule module = make_graph_module(trace, is_read ? GraphReader::Python : GraphReader::Runner);
    report.nodes = module.nodes;
    report.calls = module.calls;
    report.inputs = trace.inputs.size();
    report.guard_count = trace.guards.size();
    if (module.module && report.broken && capture_observer != nullptr)
        checked(PyObject_SetAttrString(module.module.get(), "_stator_break", as_dict(*report.broken).get()));
    if (module.module && to_trace.run_by == Tracer::RunBy::Compiler) show_traced_code(trace, module.module);
    if (module.module && report.trace_log) {
        Ref<> sources = checked(PyList_New(0));
        for (const Source* source : trace.inputs) {
            const std::string place = print(*source);
            checked(PyList_Append(sources.get(), checked(PyUnicode_FromString(place.c_str())).get()));
        }
        checked(PyObject_SetAttrString(module.module.get(), "_stator_sources", sources.get()));
    }
    if (module.module) clock.end("fx");

    paused.resume();
    if (module.module && agrees) {
        if (auto again = agree_between_ranks(module, trace, knowledge, report)) return std::move(*again);
        clock.end("ranks");
    }

    const BackendModes modes{trace.is_kept_as_captured, state.modes.grad, trace.modes.grad};
    Plan plan = std::move(trace.plan);
    const bool is_for_compilers = trace.is_compiling_was_true;
    traced = Again{};  // the backend may take long, and the data of the trace is many times as large as the graph
    clock.end("trace");
    std::variant<BackendResult, Again> compiled =
        compile(std::move(module), request.options, modes, request.frame, request.at);
    clock.end("backend");
    if (auto* again = std::get_if<Again>(&compiled)) return std::move(*again);
    auto& result = std::get<BackendResult>(compiled);
    for (BackendCondition& condition : result.conditions) {
        if (!kept.has_conditions) break;
        report.add_backend_relation(condition.text);
        guards->require(std::move(condition));
    }
    report.is_captured = true;
    Shared<Entry> entry = make_entry(request, std::move(state), std::move(*guards));
    entry->is_captured = true;
    entry->is_for_compilers = is_for_compilers;
    entry->checks_state = kept.has_state;
    entry->graph = std::move(result.graph);
    entry->plan = std::move(plan);
    return entry;
}

void note_whole_calls(const Knowledge& learned, PyCodeObject* caller) {
    for (const auto& [code, held] : learned.called_whole) {
        const Callee called = callee_of(code);
        issue_note(
            NoteKind::Information, NoteOnce::AtPlace, "called_whole", called,
            called.print() + " breaks the graph of " + callee_of(caller).print() +
                " and uses no tensors: from now on it is called uncompiled instead of inlined. stator.explain shows "
                "the graph break.");
    }
}

// As in torch.compile, fullgraph=True turns both on.
bool captures_scalars(const CompileOptions& options) {
    return options.fullgraph || dynamo_switch("capture_scalar_outputs", "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS");
}

bool captures_data_sizes(const CompileOptions& options) {
    return options.fullgraph ||
           dynamo_switch("capture_dynamic_output_shape_ops", "TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS");
}

bool captures_autograd() {
    return dynamo_switch("trace_autograd_ops", "");
}

}  // namespace

TraceRequest CaptureRequest::for_trace() const {
    TraceRequest request = TraceRequest::of(frame, at);
    const bool is_for_freezing = (!torch_room::current_modes().grad && is_freezing()) ||
                                 dynamo_switch("prepare_freezing", "TORCHDYNAMO_PREPARE_FREEZING");
    request.registers_attributes = options.registers_attributes || is_for_freezing;
    request.wants_one_graph = options.fullgraph;
    request.dynamic = read_dynamic_policy(options.dynamic_shapes);
    if (!traits_of(options.backend.get()).runs_as_captured) request.run_by = Tracer::RunBy::Compiler;
    request.captures_scalars = captures_scalars(options);
    request.captures_data_sizes = captures_data_sizes(options);
    request.captures_autograd = captures_autograd();
    return request;
}

std::string print_capture_settings(const CompileOptions& options) {
    const DynamicPolicy policy = read_dynamic_policy(options.dynamic_shapes);
    std::string text;
    for (bool is_on : {captures_scalars(options), captures_data_sizes(options), captures_autograd(),
                       policy.is_automatic, policy.is_static_by_default, policy.specializes_ints,
                       policy.specializes_floats, policy.has_static_parameters, policy.has_static_module_properties,
                       policy.has_dynamic_ints_of_modules, policy.may_specialize_marked_sizes, policy.shares_symbols})
        text += is_on ? '1' : '0';
    for (const auto& named : policy.named) text += "," + named.name + ":" + std::to_string(named.dimension);
    for (std::int64_t value : policy.values) text += "," + std::to_string(value);
    return text;
}

std::size_t capture_count() {
    return captures;
}

Shared<Entry> capture(const CaptureRequest& request, SharedKnowledge& knowledge, CaptureReport& report) {
    PyCodeObject* code = cpython::code_of(request.frame);
    report.code = Ref<PyCodeObject>::share(code);
    while (true) {
        report.start_attempt();
        // Code that an attempt runs may capture this function too, and add knowledge meanwhile.
        const Knowledge known = knowledge.known;
        Attempt answer = attempt(request, known, report);
        if (auto* again = std::get_if<Again>(&answer)) {
            // This terminates: each fact is learned once, and each lazy module is initialized once.
            const bool is_new = knowledge.known.add(again->learned);
            STATOR_CHECK(is_new || !again->is_by_backend, "the backend rejects the same symbols again");
            note_whole_calls(again->learned, code);
            continue;
        }
        report.knowledge = known.print();
        Shared<Entry> entry = std::get<Shared<Entry>>(std::move(answer));
        if (!entry) return nullptr;
        if (entry->is_captured) ++captures;
        publish(report);
        if (report.broken && !entry->is_captured && report.broken->kind == BreakKind::Internal)
            warn_of_internal_error(*report.broken);
        return entry;
    }
}

Shared<Entry> observe(const CaptureRequest& request, const Knowledge& knowledge) {
    CollectorPaused paused;
    torch_room::GlobalState state = torch_room::snapshot_global_state();
    std::variant<Trace, Again> traced = stator::trace(request.for_trace(), knowledge);
    auto* trace = std::get_if<Trace>(&traced);
    if (trace == nullptr) return nullptr;
    return make_entry(request, std::move(state), GuardProgram(trace->guards, {}));
}

}  // namespace stator
