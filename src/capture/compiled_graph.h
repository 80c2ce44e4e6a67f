/// A compiled graph, and the data that is needed to run it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ref.h"
#include "capture/shared_memory.h"
#include "capture/undo.h"
#include "trace/trace.h"

namespace stator {

struct CompiledGraph {
    /// Called with the inputs; empty if the graph has no operations.
    Ref<> compiled;
    /// The graph as it was captured, for aliased inputs and for double backward; empty if `compiled` is that graph.
    Ref<> as_captured;
    std::size_t input_count = 0;
    /// Inputs that are tensor subclasses: the graph gets plain views of them.
    std::vector<std::uint32_t> of_classes;
    /// Inputs that are numbers: the graph gets tensors that hold them.
    std::vector<std::uint32_t> wrapped_numbers;
    /// Inputs that are random numbers: what is fetched is the generator.
    std::vector<DrawnInput> draws;
    SharedMemory shared_memory;
    bool has_noted_sharing = false;
    /// Whether autograd records what the compiled graph does.
    bool is_recorded = false;
    /// Whether the graph as it was captured returns the same results when it is run again on the same inputs.
    bool is_repeatable = false;
    /// The program sees something of a run of the graph that does not come to its end.
    bool is_visible_to_program = false;
    /// The graph calls operations that the program, or a library, has registered: these may raise anything.
    bool has_custom_operations = false;
    /// The graph has tensors of wrapper subclasses. Their `__torch_function__` was traced, and is not called again.
    bool has_wrappers = false;
    /// The graph enters hooks on saved tensors, which a run that fails has to leave.
    bool enters_hooks = false;
    Undo undo;
};

}  // namespace stator
