/// The rows that iterating over tensors gave.
///
/// Python's iteration over a tensor is one `unbind`, whose results autograd treats as one group of views. The graph
/// indexes each row by itself, as torch._dynamo's graphs do, unless a row that needs gradients leaves the graph.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/node.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

class Rows {
  public:
    Rows(Tracer& tracer, graph::Graph& graph) : tracer_(tracer), graph_(graph) {}

    void note(TensorValue* base, const std::vector<Value*>& rows);
    /// The node of the tensor of which a node gives a row; null if the node gives no row.
    graph::Node* base_of_row(const graph::Node* node) const;
    /// The node that returns a tensor from the graph: `node`, or for a row the item of an `unbind`. At a return,
    /// torch._dynamo leaves the `unbind` out for rows that need no gradient.
    graph::Node* as_output(graph::Node* node, bool is_return);

  private:
    struct Row {
        graph::Node* base;
        const graph::Node* first;  // of the rows of one iteration
        std::size_t index;
        bool with_grad;
        bool needs_gradient;
    };
    graph::Node* unbound(const Row& row, const graph::Node* node);
    graph::Result result_of_unbind(const graph::Node* first) const;

    Tracer& tracer_;
    graph::Graph& graph_;
    std::unordered_map<const graph::Node*, Row> rows_;
    std::unordered_map<const graph::Node*, graph::Node*> unbound_;  // by the first row
};

}  // namespace stator
