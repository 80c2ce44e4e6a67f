/// Runs an entry whose guards have just held: the graph, then the plan.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/python_error.h"
#include "capture/entry.h"
#include "effect/plan_registers.h"
#include "graph/runner.h"
#include "run/draws.h"
#include "torch/kept_state.h"

namespace stator {

/// Describes a graph that raised.
struct GraphFailure {
    GraphFailure() {}  // not defaulted: it would be filled with zeros first

    bool has_happened = false;
    bool was_seen = false;  // the program may see effects of the graph
    std::optional<graph::Failure> at;
    std::unique_ptr<torch_room::KeptState> before;  // the state that it may have changed; null if it was not saved
    GeneratorStates generators;                     // that random numbers were drawn from

    /// Whether the graph's run left no effects that the program could see, or they are undone. The current exception
    /// stays set.
    bool undo() {
        ErrorAside aside;
        const bool is_undone = !was_seen || (before && !(at && at->is_lasting) && before->restore());
        return is_undone && generators.restore();
    }
};

/// Runs only the plan, with the graph's results and the objects that the plan fetches.
Ref<> run_plan(Entry& entry, PyThreadState* thread, cpython::Frame* frame, std::span<PyObject* const> results,
               std::span<PyObject* const> fetched, PlanRegisters& registers);

/// Runs the graph and the plan of an entry whose guards have just held. Returns the frame's result; or nothing if the
/// plan has open frames, which are filled from `registers`. Throws PythonError.
Ref<> execute(Entry& entry, PyThreadState* thread, cpython::Frame* frame, PlanRegisters& registers,
              GraphFailure* failure);

}  // namespace stator
