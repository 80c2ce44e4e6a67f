/// The rows that iterating over tensors gave.
///
/// Python's iteration over a tensor is one `unbind`, whose results autograd treats as one group of views. The graph
/// indexes each row by itself, as torch._dynamo's graphs do, unless a row that needs gradients leaves the graph.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/node.h"
#include "trace/recorder/autograd_views.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

class Rows {
  public:
    Rows(Tracer& tracer, graph::Graph& graph) : tracer_(tracer), graph_(graph) {}

    /// Adds the `unbind` of an iteration, which is removed again unless it turns out to be needed. Null if the tensor
    /// has no rows.
    graph::Node* begin(const TensorValue* base);
    /// The rows of an iteration. `unbind` is null where the graph has none.
    void note(TensorValue* base, graph::Node* unbind, const std::vector<Value*>& rows);
    /// A node gives a view of what another one gives, or its result itself.
    void note_part(const graph::Node* of, const graph::Node* part);
    /// The node of the tensor of which a node gives a row; null if the node gives no row.
    graph::Node* base_of_row(const graph::Node* node) const;
    /// The node that returns a tensor from the graph: `node`, or for a row the item of an `unbind`. At a return,
    /// torch._dynamo leaves the `unbind` out for rows that need no gradient.
    graph::Node* as_output(graph::Node* node, bool is_return, const AutogradViews& views);

  private:
    /// Of one iteration.
    struct Group {
        const TensorValue* base;
        graph::Node* base_node;       // as it was then
        graph::Node* unbind;          // where the program iterates; null in deferred graphs
        graph::Node* last = nullptr;  // an `unbind` at the end of the graph
        std::vector<graph::Node*> rows;
        bool with_grad;
        bool is_unbound = false;  // the rows are the items of `unbind`
    };
    struct Row {
        std::shared_ptr<Group> group;
        std::size_t index;  // `kPart` for what is made of a row: a view of it, or the row after a write to it
    };
    static constexpr std::size_t kPart = static_cast<std::size_t>(-1);

    graph::Node* item_at_end(const Row& row, const graph::Node* node);
    /// Makes the rows what they are to the program, from where it iterates.
    void unbind(const std::shared_ptr<Group>& group);
    static void set_source(Group& group, graph::Node* from, graph::Node* to);
    static graph::Result result_of_unbind(const Group& group);

    Tracer& tracer_;
    graph::Graph& graph_;
    std::unordered_map<const graph::Node*, Row> rows_;
};

}  // namespace stator
