/// Calls the backend, which compiles a graph module.
#pragma once

#include <optional>
#include <variant>

#include "capture/compiled_graph.h"
#include "capture/graph_module.h"
#include "capture/options.h"
#include "cpython/frame.h"
#include "graph/runner.h"

namespace stator {

/// Properties of a backend: see stator.backends.
struct BackendTraits {
    /// The runner that is all that the backend makes of a graph.
    struct OwnRunner {
        graph::Calls calls;
        graph::Recording recording;
    };
    std::optional<OwnRunner> runner;
    bool runs_as_captured = false;
    bool is_pytorchs = false;
    bool takes_fakes = false;
    bool writes_at_end = false;
};

BackendTraits traits_of(Borrowed<> backend);

/// A reset of torch has to reset Stator, again with every graph (stator/torch_reset.py).
void follow_resets();

/// Whether inductor will freeze parameters into its code: then they have to be attributes of the graph module.
bool is_freezing();

/// The modes in which the graph runs.
struct BackendModes {
    bool is_kept_as_captured = false;  // the graph must not be compiled
    bool with_grad_at_start = false;
    bool with_grad_at_end = false;
};

struct BackendResult {
    CompiledGraph graph;
    /// What the backend assumed about symbols: they become guards.
    std::vector<BackendCondition> conditions;
};

/// Passes the graph to the backend. `Again` if it can't have some of the symbols. Throws PythonError.
std::variant<BackendResult, Again> compile(GraphModule module, const CompileOptions& options, const BackendModes& modes,
                                           cpython::Frame* frame, bytecode::Index at);

}  // namespace stator
