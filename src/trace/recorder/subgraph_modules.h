/// The modules of subgraphs. Their placeholders are named after nodes of the graph around them, so they are built when
/// that graph is finished. Until then the node that gives a subgraph is a call of a `PendingSubgraph`.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/node.h"
#include "value/deferred_graph.h"

namespace stator {

struct PendingSubgraph {
    Subgraph subgraph;
    SubgraphModule module;
    std::string attribute;  // the name
};

/// As a Python object, for the target of a node.
Ref<> make_pending(PendingSubgraph pending);
PendingSubgraph* pending_of(PyObject* target);
/// Whether two subgraphs compute the same from inputs with the same metadata.
bool are_equal(const Subgraph& left, const Subgraph& right);
/// The one that a node gives; null for other nodes.
PendingSubgraph* pending_of(const graph::Node* node);

struct BuiltSubgraph {
    std::string attribute;
    std::unique_ptr<graph::Graph> graph;
    const graph::Node* operation = nullptr;  // that runs it, the first one
    /// The nodes of the trace that it has copies of.
    std::unordered_map<const graph::Node*, graph::Node*> copies;
};

/// Builds the subgraphs of a finished graph, not those inside of them, and makes their nodes attributes. `copies` are
/// of the nodes of the trace in this graph, null for the main graph itself.
std::vector<BuiltSubgraph> build_subgraphs(graph::Graph& graph,
                                           const std::unordered_map<const graph::Node*, graph::Node*>* copies);

}  // namespace stator
