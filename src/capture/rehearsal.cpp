#include "capture/rehearsal.h"

#include <variant>
#include <vector>

#include "capture/backend.h"
#include "capture/capture.h"
#include "capture/dynamic_settings.h"
#include "capture/failed_traces.h"
#include "capture/graph_module.h"
#include "cpython/objects.h"
#include "graph/runner.h"
#include "torch/function_transforms.h"
#include "torch/global_state.h"
#include "trace/trace.h"

namespace stator {

Ref<> rehearse(PyFunctionObject* function, Borrowed<> slots, const CompileOptions& options) {
    print_capture_settings(options);
    traits_of(options.backend.get());
    torch_room::transform_depth();
    is_freezing();
    const torch_room::GlobalState state = torch_room::snapshot_global_state();
    torch_room::matches(state);
    const std::vector<PyObject*> held = held_in_slots(slots);
    TraceRequest request{.function = function, .code = cpython::code_of(function), .slots = held.data(), .at = {0}};
    request.dynamic = read_dynamic_policy(options.dynamic_shapes);
    std::variant<Trace, Again> traced = trace(request, {});
    auto* finished = std::get_if<Trace>(&traced);
    if (finished == nullptr || finished->end == TraceEnd::Failed) return nullptr;
    const GuardProgram guards(finished->guards, finished->inputs, finished->distinct, {});
    follow_resets();
    GraphModule module = make_graph_module(*finished, GraphReader::Runner);
    if (!module.captured) return nullptr;
    Ref<> runner = graph::make_runner(module.captured.get(), nullptr, graph::Calls::Prepared);
    graph::runner_of(runner.get());
    return runner;
}

}  // namespace stator
