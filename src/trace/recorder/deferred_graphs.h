/// Captures deferred graphs and subgraphs (see value/deferred_graph.h): takes their operations out of the main graph
/// into graphs of their own, which get what they read from before as further inputs.
#pragma once

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "trace/exits/lifetimes.h"
#include "trace/writes/rereads.h"
#include "value/deferred_graph.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

class GraphRecorder;

class DeferredGraphCapture final : public DeferredGraphs {
  public:
    DeferredGraphCapture(Tracer& tracer, GraphRecorder& recorder, const CallStack& stack, const Lifetimes& lifetimes)
        : tracer_(tracer), recorder_(recorder), stack_(stack), lifetimes_(lifetimes) {}

    void begin(DeferredGraph::Kind kind, Writes writes = Writes::Nothing) override;
    bool is_open() const override { return !open_.empty(); }
    /// Whether one of the open graphs is a subgraph.
    bool is_in_subgraph() const {
        return std::ranges::find(open_, DeferredGraph::Kind::Subgraph, &Open::kind) != open_.end();
    }
    /// Whether the open graphs may read floats from before. The higher-order operations of PyTorch take none as
    /// operands, except for `wrap`, which may change anything too.
    bool take_floats() const {
        return std::ranges::all_of(open_, [](const Open& open) { return open.writes == Writes::Anything; });
    }
    /// Whether the innermost open graph runs later.
    bool runs_later() const override { return is_open() && open_.back().kind != DeferredGraph::Kind::Subgraph; }
    bool is_made_inside(const TensorValue* tensor) const override;
    bool put_back(std::span<const Effect> effects) override { return rereads().put_back(effects); }
    DeferredGraph end(std::span<TensorValue* const> inputs, std::span<Value* const> outputs) override;
    void emit_history(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results) override;
    void emit_recomputed(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results,
                         const DeferredGraph& recomputed) override;

    TensorValue* add_input(const torch_room::TensorMeta& meta) override;
    void add_unused_input(Borrowed<> number) override;
    bool is_own_input(const TensorValue* tensor) const override;
    Subgraph end_subgraph(std::span<Value* const> outputs) override;
    AddedModule add_module(Subgraph subgraph, SubgraphModule module) override;
    graph::Node* emit_higher_order(Borrowed<> operation, std::vector<graph::Argument> arguments,
                                   std::vector<graph::KeywordArgument> keywords, const GraphFlags& flags) override;
    void give_results(graph::Node* operation, std::span<TensorValue* const> results,
                      std::span<const torch_room::TensorMeta* const> metas) override;

    // While a graph is open, of the innermost one:
    Rereads& rereads() { return open_.back().rereads; }
    /// Index of its first node in the main graph.
    std::size_t first_node() const { return open_.back().start; }
    /// Whether a node was there before.
    bool predates(const graph::Node* node) const;
    void note_read(TensorValue* tensor) { open_.back().read.emplace_back(tensor->node, tensor); }

    /// The program has assigned the result of a node to a variable.
    void note_name(const graph::Node* node, std::string variable);

    /// Breaks the graph if an operation of an open graph writes to a tensor from before, and that graph may not: to its
    /// data, or to anything of it.
    void expect_own(const TensorValue* written, Writes writes) const;
    /// Breaks the graph if a tensor, or one that it is a view of, is a result of a recomputed graph.
    void expect_not_recomputed(const TensorValue* written) const;

  private:
    using Reads = std::vector<std::pair<const graph::Node*, TensorValue*>>;
    struct Open {
        DeferredGraph::Kind kind;
        Writes writes;
        std::size_t start;  // in the main graph
        Reads read;         // tensor arguments of its nodes
        Rereads rereads;
        // Of a subgraph:
        std::vector<graph::Node*> inputs = {};
        std::unordered_map<const graph::Node*, std::string> variables = {};  // that nodes are named after
    };
    /// The tensors from before that the deferred graph reads, once each.
    Reads take_reads(std::span<TensorValue* const> inputs, std::span<Value* const> outputs);
    /// What the open subgraph reads from before.
    std::vector<graph::Node*> lifted(std::span<const graph::Argument> outputs);
    void set_flags(graph::Node* node, const GraphFlags& flags);
    void note_recomputed(const TensorValue* result);

    Tracer& tracer_;
    GraphRecorder& recorder_;
    const CallStack& stack_;
    const Lifetimes& lifetimes_;
    std::vector<Open> open_;                             // the innermost last
    std::unordered_set<const TensorValue*> recomputed_;  // results of recomputed graphs and of subgraphs
    std::unordered_map<std::string, int> modules_;       // how many subgraphs have a name
    std::vector<PyObject*> shared_;                      // subgraphs that may be used again, as targets of nodes
};

}  // namespace stator
