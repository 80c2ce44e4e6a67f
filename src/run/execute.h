/// Running an entry whose guards have just held: the graph, then the plan.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/python_error.h"
#include "capture/entry.h"
#include "graph/runner.h"
#include "torch/kept_state.h"

namespace stator {

/// What is known of a graph that raised.
struct GraphFailure {
    bool has_happened = false;
    bool was_seen = false;  // the program may see something of what the graph did
    std::optional<graph::Failure> at;
    std::unique_ptr<torch_room::KeptState> before;  // what it may have changed; null if that was not kept

    /// Whether the graph's run left nothing behind that the program could see, or nothing any more.
    /// The exception that is set stays.
    bool undo() {
        ErrorAside aside;
        return !was_seen || (before && !(at && at->is_lasting) && before->restore());
    }
};

/// The plan alone, with what the graph gave and what the plan fetches.
Ref<> run_plan(Entry& entry, PyThreadState* thread, cpython::Frame* frame, std::span<PyObject* const> results,
               std::span<PyObject* const> fetched, std::vector<Ref<>>* registers);

/// Runs the graph and the plan of an entry whose guards have just held. Gives what the frame returns, or nothing: then
/// the plan's frames go on, and are made of `registers`. Throws PythonError.
Ref<> execute(Entry& entry, PyThreadState* thread, cpython::Frame* frame, std::vector<Ref<>>* registers,
              GraphFailure* failure);

}  // namespace stator
