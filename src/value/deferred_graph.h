/// Deferred graphs: operations that run later than the graph in which the program requests them, in a backward pass.
/// They are captured into a graph of their own.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "value/value.h"

namespace stator {

struct TensorValue;

struct DeferredGraph {
    enum class Kind : std::uint8_t {
        Backward,    // a backward function or a hook
        Recomputed,  // a checkpointed function: it runs in the forward pass, and again in the backward pass
    };
    PyObject* runner = nullptr;       // runs the graph
    std::vector<TensorValue*> reads;  // tensors from before it began, which it takes as inputs after its own
    // The flags of graph::Node, for the graph as a whole.
    bool has_effect = false;
    bool is_random = false;
    bool may_fail = false;
    bool is_visible_to_program = false;
    bool is_lasting = false;
    /// Describes something that the program's code would read when the graph runs and that may have changed by then: a
    /// global variable, an attribute, ... Empty if there is none.
    std::string rereads;
};

/// Captures deferred graphs. `DeferredGraphCapture` in the trace room implements it.
class DeferredGraphs {
  public:
    virtual ~DeferredGraphs() = default;

    /// Operations go into a deferred graph from now on. Numbers are constants in it, and it may not write to tensors
    /// from before. Breaks the graph if one is open already.
    virtual void begin(DeferredGraph::Kind kind) = 0;
    /// Whether a deferred graph is being captured.
    virtual bool is_open() const = 0;
    /// Whether a tensor was made in the open deferred graph.
    virtual bool is_made_inside(const TensorValue* tensor) const = 0;
    /// Ends the deferred graph. `inputs` were made since `begin`; each output is a tensor or None.
    virtual DeferredGraph end(std::span<TensorValue* const> inputs, std::span<Value* const> outputs) = 0;

    /// Adds a node that gives these tensors an autograd history. To the program they stay the same objects.
    virtual void emit_history(Borrowed<> function, const Arguments& arguments,
                              std::span<TensorValue* const> results) = 0;
    /// Adds a node that runs a recomputed graph in the forward pass, and returns these tensors from it.
    virtual void emit_recomputed(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results,
                                 const DeferredGraph& recomputed) = 0;
};

}  // namespace stator
