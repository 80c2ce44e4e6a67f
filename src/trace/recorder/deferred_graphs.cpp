#include "trace/recorder/deferred_graphs.h"

#include <algorithm>
#include <unordered_map>

#include "base/names.h"
#include "base/python_error.h"
#include "graph/captured.h"
#include "graph/runner.h"
#include "trace/recorder/copier.h"
#include "trace/recorder/graph_recorder.h"
#include "value/tensor/function_modes.h"
#include "value/tensor/saved_tensors.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"

namespace stator {

using graph::Node;

namespace {

/// Placeholders and attributes stay in the main graph.
bool is_input(const Node* node) {
    return node->kind == graph::NodeKind::Placeholder || node->kind == graph::NodeKind::Attribute;
}

}  // namespace

bool DeferredGraphCapture::predates(const Node* node) const {
    return node->index < open_.back().start || is_input(node);
}

void DeferredGraphCapture::expect_own(const TensorValue* written, Writes writes) const {
    auto may_not_write = [&](const Open& open) {
        return open.writes < writes && (written->node->index < open.start || is_input(written->node));
    };
    for (; is_open() && written != nullptr; written = written->view_of) {
        if (std::ranges::any_of(open_, may_not_write) || is_own_input(written))
            tracer_.break_graph(BreakKind::UnsupportedTensor,
                                runs_later() ? "a backward pass or a checkpointed function writes to a tensor that it "
                                               "did not create"
                                             : "a function that is given to a higher-order operation writes to a "
                                               "tensor that it did not create");
        // (Which nodes of a subgraph read what was overwritten is not marked, see overwritten.cpp.)
        if (is_input(written->node) && tracer_.run_by() == Tracer::RunBy::Compiler && tracer_.modes().current().grad)
            recorder_.keep_as_captured();
    }
}

void DeferredGraphCapture::expect_not_recomputed(const TensorValue* written) const {
    for (; !recomputed_.empty() && written != nullptr; written = written->view_of)
        if (recomputed_.contains(written))
            tracer_.break_graph(
                BreakKind::UnsupportedTensor,
                "an in-place operation on a result of a checkpointed function or of a higher-order operation");
}

bool DeferredGraphCapture::is_made_inside(const TensorValue* tensor) const {
    return tensor->node != nullptr && !predates(tensor->node);
}

void DeferredGraphCapture::begin(DeferredGraph::Kind kind, Writes writes) {
    if (runs_later())
        tracer_.break_graph(BreakKind::UnsupportedTensor,
                            "a hook, torch.autograd.Function, checkpoint or higher-order operation inside of another "
                            "one's backward pass");
    const char* const what = "a hook, torch.autograd.Function, checkpoint or higher-order operation";
    expect_no_function_modes(tracer_, what);
    expect_no_saved_tensors_hooks(tracer_, what);
    tracer_.on_undo([this, depth = open_.size()] {
        while (open_.size() > depth) open_.pop_back();
    });
    open_.push_back({kind, writes, recorder_.graph().size(), {}, Rereads(tracer_, kind)});
}

DeferredGraphCapture::Reads DeferredGraphCapture::take_reads(std::span<TensorValue* const> inputs,
                                                             std::span<Value* const> outputs) {
    Reads reads;
    std::unordered_set<const Node*> known;
    for (const TensorValue* input : inputs) known.insert(input->node);
    auto read = [&](const Node* node, TensorValue* tensor) {
        if (predates(node) && known.insert(node).second) reads.emplace_back(node, tensor);
    };
    const std::unordered_map<const Node*, TensorValue*> tensors(open_.back().read.begin(), open_.back().read.end());
    const graph::Graph& main = recorder_.graph();
    for (std::size_t i = open_.back().start; i < main.size(); ++i) {
        const Node* node = main.at(i);
        // (The nodes that made the stand-ins of inputs are not copied: what they take is not read.)
        if (is_input(node) || known.contains(node)) continue;
        graph::for_each_input(*node, [&](const Node* taken) {
            if (auto found = tensors.find(taken); found != tensors.end()) read(taken, found->second);
        });
    }
    for (Value* output : outputs) {
        auto* tensor = cast<TensorValue>(output);
        if (tensor == nullptr) continue;
        tracer_.realize(tensor);
        read(tensor->node, tensor);
    }
    return reads;
}

DeferredGraph DeferredGraphCapture::end(std::span<TensorValue* const> inputs, std::span<Value* const> outputs) {
    DeferredGraph deferred;
    open_.back().rereads.check_made_values(stack_, lifetimes_);
    deferred.rereads = open_.back().rereads.found();
    auto apart = std::make_unique<graph::Graph>();
    Copier copier(*apart, /*with_metadata=*/false);
    for (TensorValue* input : inputs) copier.add_input(input->node);
    for (auto [node, tensor] : take_reads(inputs, outputs)) {
        copier.add_input(node);
        deferred.reads.push_back(tensor);
    }
    for (Node* node : recorder_.graph().take(open_.back().start)) {
        deferred.add(flags_of(*node));
        if (!copier.has(node)) copier.add(*node);
    }
    auto* items = apart->arena().make<graph::Argument::Items>();
    for (Value* output : outputs) {
        auto* tensor = cast<TensorValue>(output);
        items->values.push_back(tensor == nullptr ? graph::Argument::of_constant(Py_None)
                                                  : graph::Argument::of(copier.of(tensor->node)));
    }
    apart->add(graph::NodeKind::Output, interned("output"),
               {graph::Argument::of_items(graph::Argument::Kind::Tuple, items)});
    apart->finish();
    open_.pop_back();
    Ref<> captured = graph::make_captured(std::move(apart), {});
    deferred.runner = tracer_.keep(graph::make_runner(captured.get(), nullptr));
    return deferred;
}

void DeferredGraphCapture::give_results(Node* operation, std::span<TensorValue* const> results,
                                        std::span<const torch_room::TensorMeta* const> metas) {
    operation->result.kind = graph::Result::Kind::Tuple;
    for (std::size_t i = 0; i < results.size(); ++i) {
        graph::Result part;
        if (results[i] == nullptr) {
            operation->result.items.push_back(part);
            continue;
        }
        part.kind = graph::Result::Kind::Tensor;
        part.tensor = metas[i];
        operation->result.items.push_back(part);
        Node* item = recorder_.add_item(operation, i, part);
        tracer_.on_undo([tensor = results[i], before = results[i]->node, of = results[i]->meta] {
            tensor->node = before;
            tensor->meta = of;
        });
        results[i]->node = item;
        results[i]->meta = metas[i];
    }
}

void DeferredGraphCapture::set_flags(Node* node, const GraphFlags& flags) {
    node->has_effect = flags.has_effect;
    node->is_random = flags.is_random;
    node->may_fail = flags.may_fail;
    node->is_visible_to_program = flags.is_visible_to_program;
    recorder_.note_lasting(node, flags.is_lasting);
}

void DeferredGraphCapture::note_recomputed(const TensorValue* result) {
    if (recomputed_.insert(result).second) tracer_.on_undo([this, result] { recomputed_.erase(result); });
}

void DeferredGraphCapture::emit_history(Borrowed<> function, const Arguments& arguments,
                                        std::span<TensorValue* const> results) {
    Node* node = recorder_.emit_effect(function, arguments);
    node->has_effect = node->is_visible_to_program = false;
    std::vector<const torch_room::TensorMeta*> metas;
    for (const TensorValue* result : results) {
        auto* meta = recorder_.graph_arena().make<torch_room::TensorMeta>(*result->meta);
        meta->requires_grad = true;
        meta->is_leaf = false;
        metas.push_back(meta);
    }
    give_results(node, results, metas);
}

void DeferredGraphCapture::emit_recomputed(Borrowed<> function, const Arguments& arguments,
                                           std::span<TensorValue* const> results, const DeferredGraph& recomputed) {
    recorder_.expect_no_stop(
        function,
        "a checkpointed function or a torch.autograd.Function that failed in an earlier run of the captured graph",
        /*is_recomputed=*/true);
    Node* node = recorder_.emit_effect(function, arguments);
    set_flags(node, recomputed);
    std::vector<const torch_room::TensorMeta*> metas;
    for (const TensorValue* result : results) {
        metas.push_back(result->meta);
        note_recomputed(result);
    }
    give_results(node, results, metas);
}

}  // namespace stator
