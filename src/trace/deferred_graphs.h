/// Captures deferred graphs (see value/deferred_graph.h): takes their operations out of the main graph into graphs of
/// their own, which get the tensors from before that they read as further inputs.
#pragma once

#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "trace/lifetimes.h"
#include "trace/rereads.h"
#include "value/deferred_graph.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

class GraphRecorder;

class DeferredGraphCapture final : public DeferredGraphs {
  public:
    DeferredGraphCapture(Tracer& tracer, GraphRecorder& recorder, const CallStack& stack, const Lifetimes& lifetimes)
        : tracer_(tracer), recorder_(recorder), stack_(stack), lifetimes_(lifetimes) {}

    void begin(DeferredGraph::Kind kind) override;
    bool is_open() const override { return open_.has_value(); }
    bool is_made_inside(const TensorValue* tensor) const override;
    DeferredGraph end(std::span<TensorValue* const> inputs, std::span<Value* const> outputs) override;
    void emit_history(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results) override;
    void emit_recomputed(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results,
                         const DeferredGraph& recomputed) override;

    // While a deferred graph is open:
    Rereads& rereads() { return open_->rereads; }
    /// Index of its first node in the main graph.
    std::size_t first_node() const { return open_->start; }
    /// Whether a node was there before.
    bool predates(const graph::Node* node) const;
    void note_read(TensorValue* tensor) { open_->read.emplace_back(tensor->node, tensor); }

    /// Breaks the graph if a deferred graph is open and an operation of it writes to a tensor from before.
    void expect_own(const TensorValue* written) const;
    /// Breaks the graph if a tensor, or one that it is a view of, is a result of a recomputed graph.
    void expect_not_recomputed(const TensorValue* written) const;

  private:
    using Reads = std::vector<std::pair<const graph::Node*, TensorValue*>>;
    struct Open {
        std::size_t start;  // in the main graph
        Reads read;         // tensor arguments of its nodes
        Rereads rereads;
    };
    /// The tensors from before that the deferred graph reads, once each.
    Reads take_reads(std::span<TensorValue* const> inputs, std::span<Value* const> outputs);
    /// From now on these tensors are the items of the tuple that a node gives.
    void give_results(graph::Node* node, std::span<TensorValue* const> results,
                      std::span<const torch_room::TensorMeta* const> metas);

    Tracer& tracer_;
    GraphRecorder& recorder_;
    const CallStack& stack_;
    const Lifetimes& lifetimes_;
    std::optional<Open> open_;
    std::unordered_set<const TensorValue*> recomputed_;  // results of recomputed graphs
};

}  // namespace stator
