#include "trace/trace.h"

#include "trace/interpreter.h"

namespace stator {

TraceRequest TraceRequest::of(cpython::Frame* frame, bytecode::Index at) {
    return {.function = cpython::function_of(frame),
            .code = cpython::code_of(frame),
            .slots = cpython::slots(frame),
            .at = at,
            .stack_depth = at.value == 0 ? 0 : cpython::stack(frame).size(),
            .is_generator = cpython::is_generator_frame(frame)};
}

namespace {

std::variant<Trace, Again> trace_once(const TraceRequest& request, const Knowledge& knowledge) {
    Interpreter interpreter(request, knowledge);
    try {
        interpreter.run();
    } catch (const StartAgain& again) {
        return Again{again.reason, {}};
    }
    if (interpreter.end() != TraceEnd::Returned) {
        PyCodeObject* found = interpreter.communication();
        if (found != nullptr && !knowledge.communicating.contains(found)) {
            Again again{"a function that communicates between processes breaks the graph", {}};
            again.learned.communicating.emplace(found, Ref<PyCodeObject>::share(found));
            return again;
        }
    }
    if (interpreter.end() != TraceEnd::Returned && !request.wants_one_graph) {
        PyCodeObject* whole = interpreter.function_without_tensors();
        if (whole != nullptr && !knowledge.called_whole.contains(whole)) {
            Again again{"a function that works on no tensors, or calls skip_frame, breaks the graph", {}};
            again.learned.called_whole.emplace(whole, Ref<PyCodeObject>::share(whole));
            return again;
        }
    }
    if (interpreter.end() == TraceEnd::Failed && !request.wants_one_graph) {
        Again again{"a tensor of a function transform is used after the captured region", {}};
        for (PyCodeObject* code : interpreter.transforms_to_call_whole())
            again.learned.called_whole.emplace(code, Ref<PyCodeObject>::share(code));
        if (!again.learned.called_whole.empty()) return again;
    }
    const bool runs_around_graphs = interpreter.end() != TraceEnd::Returned && interpreter.runs_around_graphs();
    Trace trace = interpreter.take_trace();
    if (runs_around_graphs) {
        trace.end = TraceEnd::Failed;
        trace.captures_calls = true;
    }
    return trace;
}

/// A trace that failed where the program has entered a level, and the frame could go on from before it.
bool is_worse(const std::variant<Trace, Again>& traced, const TraceRequest& request) {
    const auto* trace = std::get_if<Trace>(&traced);
    return trace != nullptr && trace->end == TraceEnd::Failed && !request.wants_one_graph;
}

}  // namespace

std::variant<Trace, Again> trace(const TraceRequest& request, const Knowledge& knowledge) {
    std::variant<Trace, Again> traced = trace_once(request, knowledge);
    const auto* trace = std::get_if<Trace>(&traced);
    if (trace == nullptr || !trace->refuses_levels_by_hand) return traced;
    TraceRequest with_levels = request;
    with_levels.allows_levels_by_hand = true;
    std::variant<Trace, Again> again = trace_once(with_levels, knowledge);
    return is_worse(again, request) ? std::move(traced) : std::move(again);
}

}  // namespace stator
