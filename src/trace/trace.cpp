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

std::variant<Trace, Again> trace(const TraceRequest& request, const Knowledge& knowledge) {
    Interpreter interpreter(request, knowledge);
    try {
        interpreter.run();
    } catch (const StartAgain& again) {
        return Again{again.reason, {}};
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
    return interpreter.take_trace();
}

}  // namespace stator
