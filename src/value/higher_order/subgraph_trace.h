/// Traces a function of the program into a subgraph, for a higher-order operation.
///
/// The function is called with values of the graph around it, or with inputs of the subgraph (`DeferredGraphs`); what
/// it reads besides becomes an operand. It runs an unknown number of times, so it must have no side effects.
#pragma once

#include <string>
#include <vector>

#include "torch/global_state.h"
#include "value/deferred_graph.h"
#include "value/higher_order/pytrees.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

/// A traced function.
struct TracedFunction {
    Subgraph subgraph;
    Value* result = nullptr;
    Leaves outputs;  // of the result
};

class SubgraphTrace {
  public:
    /// `operation` is named in messages.
    SubgraphTrace(Tracer& tracer, std::string operation) : tracer_(tracer), operation_(std::move(operation)) {}

    /// Breaks the graph.
    [[noreturn]] void refuse(const std::string& why) const;

    /// Begins the subgraph.
    void begin(Value* function, const Arguments& arguments,
               DeferredGraphs::Writes writes = DeferredGraphs::Writes::Nothing);
    /// Breaks the graph if the function that was called since has side effects.
    void expect_no_effects();
    /// Ends the subgraph, whose outputs are all leaves of the result: tensors, ints and None.
    TracedFunction end(Value* result);
    /// Breaks the graph if an output of the traced function is not a tensor that it has made, or shares memory with
    /// another output or with a tensor that the function was given. Called before `end`.
    void expect_fresh_outputs(const Leaves& outputs);

  private:
    std::vector<const Value*> within_reach() const;

    Tracer& tracer_;
    std::string operation_;
    std::vector<const Value*> roots_, before_;
    std::size_t effects_ = 0;
    torch_room::Modes modes_;
};

/// Calls the function between `begin` and `end`. Delivers its result.
Task call_traced(Tracer& tracer, SubgraphTrace& trace, Value* function, Arguments arguments);

/// The tensors among the leaves, null for others.
std::vector<TensorValue*> tensors_in(const Leaves& leaves);

}  // namespace stator
