/// Copies nodes of the main graph into a graph of their own.
#pragma once

#include <span>
#include <unordered_map>

#include "graph/node.h"
#include "value/deferred_graph.h"

namespace stator {

GraphFlags flags_of(const graph::Node& node);

class Copier {
  public:
    /// With metadata if the other graph will keep what nodes of the main graph point to.
    Copier(graph::Graph& to, bool with_metadata) : to_(to), with_metadata_(with_metadata) {}

    /// A placeholder for what a node gives.
    graph::Node* add_input(const graph::Node* original, Borrowed<> name);
    /// The same, with a name by its number.
    graph::Node* add_input(const graph::Node* original);
    /// A copy of an operation, whose inputs have been added.
    graph::Node* add(const graph::Node& original);

    graph::Node* of(const graph::Node* original) const;
    bool has(const graph::Node* original) const { return copies_.contains(original); }
    graph::Argument copy(const graph::Argument& argument);

  private:
    graph::Graph& to_;
    const bool with_metadata_;
    std::unordered_map<const graph::Node*, graph::Node*> copies_;
    std::size_t inputs_ = 0;
};

}  // namespace stator
