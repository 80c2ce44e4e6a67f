/// The lines and modules of the program at which nodes are made.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "base/stopwatch.h"
#include "graph/node.h"
#include "trace/call_stack.h"
#include "trace/trace.h"
#include "value/tracer.h"

namespace stator {

class NodeLocations {
  public:
    NodeLocations(Tracer& tracer, const CallStack& stack, graph::Graph& graph)
        : tracer_(tracer), stack_(stack), graph_(graph) {}

    /// Gives a node the line of the program that is being executed, and the modules around it.
    void locate(graph::Node* node) {
        node->location = current();
        node->modules = modules();
        ticks_.push_back({node, ticks()});
    }
    /// When each node was located, after an entry without a node for the start of the trace.
    std::vector<NodeTicks> take_ticks() { return std::move(ticks_); }
    /// The modules around the innermost frame; null if there are none.
    const graph::ModulePath* modules() const;
    /// The modules around the frame of a function that the innermost frame calls.
    const graph::ModulePath* modules_for(FunctionValue* function, const Arguments& arguments);

  private:
    const graph::Location* current();

    Tracer& tracer_;
    const CallStack& stack_;
    graph::Graph& graph_;
    std::unordered_map<const Source*, int> module_calls_;
    std::vector<NodeTicks> ticks_{{nullptr, ticks()}};
};

}  // namespace stator
