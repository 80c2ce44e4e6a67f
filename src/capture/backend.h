/// The backend: from a graph module to something that runs it.
#pragma once

#include <variant>

#include "capture/compiled_graph.h"
#include "capture/graph_module.h"
#include "capture/options.h"
#include "cpython/frame.h"

namespace stator {

/// What a backend says of itself: see stator.backends.
struct BackendTraits {
    bool runs_as_captured = false;
    bool is_pytorchs = false;
    bool takes_fakes = false;
    bool writes_at_end = false;
};

BackendTraits traits_of(Borrowed<> backend);

/// Whether inductor will fold a model's parameters into its code: then it wants them in the graph module.
bool is_freezing();

/// What the graph runs under.
struct BackendModes {
    bool is_kept_as_captured = false;  // no compiler may have the graph
    bool with_grad_at_start = false;
    bool with_grad_at_end = false;
};

/// Hands the graph to the backend. `Again` where that took numbers for constants which are inputs. Throws PythonError.
std::variant<CompiledGraph, Again> compile(GraphModule module, const CompileOptions& options, const BackendModes& modes,
                                           cpython::Frame* frame, bytecode::Index at);

}  // namespace stator
