#include "trace/deferred_graphs.h"

#include <unordered_map>

#include "base/names.h"
#include "base/python_error.h"
#include "graph/captured.h"
#include "graph/runner.h"
#include "trace/graph_recorder.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

using graph::Argument;
using graph::Node;
using graph::NodeKind;

/// Placeholders and attributes stay in the main graph.
bool is_input(const Node* node) {
    return node->kind == NodeKind::Placeholder || node->kind == NodeKind::Attribute;
}

/// Copies nodes into another graph.
class Copier {
  public:
    explicit Copier(graph::Graph& to) : to_(to) {}

    Node* add_input(const Node* original) {
        Ref<> name = checked(PyUnicode_FromFormat("input_%zu", inputs_++));
        Node* node = to_.add(NodeKind::Placeholder, name.get(), {});
        node->has_effect = true;  // it stays an input, used or not
        return copies_[original] = node;
    }

    void add(const Node& original) {
        std::vector<Argument> arguments;
        for (const Argument& argument : original.arguments) arguments.push_back(copy(argument));
        std::vector<graph::KeywordArgument> keywords;
        for (const graph::KeywordArgument& keyword : original.keywords)
            keywords.push_back({keyword.name, copy(keyword.value)});
        Node* node = to_.add(original.kind, original.target, std::move(arguments), std::move(keywords));
        node->has_effect = original.has_effect;
        node->may_fail = original.may_fail;
        copies_[&original] = node;
    }

    Node* of(const Node* original) const {
        auto found = copies_.find(original);
        STATOR_CHECK(found != copies_.end(), "a deferred graph reads a node that is neither in it nor an input of it");
        return found->second;
    }
    bool has(const Node* original) const { return copies_.contains(original); }

    /// The output: a tuple of tensors and None.
    void add_output(std::span<Value* const> outputs) {
        auto* items = to_.arena().make<Argument::Items>();
        for (Value* output : outputs) {
            auto* tensor = cast<TensorValue>(output);
            items->values.push_back(tensor == nullptr ? Argument::of_constant(Py_None)
                                                      : Argument::of(of(tensor->node)));
        }
        to_.add(NodeKind::Output, interned("output"), {Argument::of_items(Argument::Kind::Tuple, items)});
    }

  private:
    Argument copy(const Argument& argument) {
        if (argument.kind == Argument::Kind::Node) return Argument::of(of(argument.node));
        if (argument.kind == Argument::Kind::Constant) return argument;
        auto* items = to_.arena().make<Argument::Items>();
        for (const Argument& item : argument.items->values) items->values.push_back(copy(item));
        items->keys = argument.items->keys;
        items->type = argument.items->type;
        return Argument::of_items(argument.kind, items);
    }

    graph::Graph& to_;
    std::unordered_map<const Node*, Node*> copies_;
    std::size_t inputs_ = 0;
};

}  // namespace

bool DeferredGraphCapture::predates(const Node* node) const {
    return node->index < open_->start || is_input(node);
}

void DeferredGraphCapture::expect_own(const TensorValue* written) const {
    for (; open_ && written != nullptr; written = written->view_of)
        if (predates(written->node))
            tracer_.break_graph(BreakKind::UnsupportedTensor,
                                "a backward pass or a checkpointed function writes to a tensor that it did not create");
}

void DeferredGraphCapture::expect_not_recomputed(const TensorValue* written) const {
    for (; !recomputed_.empty() && written != nullptr; written = written->view_of)
        if (recomputed_.contains(written))
            tracer_.break_graph(BreakKind::UnsupportedTensor,
                                "an in-place operation on a result of a checkpointed function");
}

bool DeferredGraphCapture::is_made_inside(const TensorValue* tensor) const {
    return tensor->node != nullptr && !predates(tensor->node);
}

void DeferredGraphCapture::begin(DeferredGraph::Kind kind) {
    if (open_)
        tracer_.break_graph(BreakKind::UnsupportedTensor,
                            "a hook, torch.autograd.Function or checkpoint inside of another one's backward pass");
    tracer_.on_undo([this] { open_.reset(); });
    open_.emplace(Open{recorder_.graph().size(), {}, Rereads(tracer_, kind)});
}

DeferredGraphCapture::Reads DeferredGraphCapture::take_reads(std::span<TensorValue* const> inputs,
                                                             std::span<Value* const> outputs) {
    Reads reads;
    std::unordered_set<const Node*> known;
    for (const TensorValue* input : inputs) known.insert(input->node);
    auto read = [&](const Node* node, TensorValue* tensor) {
        if (predates(node) && known.insert(node).second) reads.emplace_back(node, tensor);
    };
    const std::unordered_map<const Node*, TensorValue*> tensors(open_->read.begin(), open_->read.end());
    const graph::Graph& main = recorder_.graph();
    for (std::size_t i = open_->start; i < main.size(); ++i) {
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
    open_->rereads.check_made_values(stack_, lifetimes_);
    deferred.rereads = open_->rereads.found();
    auto apart = std::make_unique<graph::Graph>();
    Copier copier(*apart);
    for (TensorValue* input : inputs) copier.add_input(input->node);
    for (auto [node, tensor] : take_reads(inputs, outputs)) {
        copier.add_input(node);
        deferred.reads.push_back(tensor);
    }
    for (const Node* node : recorder_.graph().take(open_->start)) {
        deferred.has_effect |= node->has_effect;
        deferred.is_random |= node->is_random;
        deferred.may_fail |= node->may_fail;
        deferred.is_visible_to_program |= node->is_visible_to_program;
        deferred.is_lasting |= node->is_lasting;
        if (!copier.has(node)) copier.add(*node);
    }
    copier.add_output(outputs);
    apart->finish();
    open_.reset();
    Ref<> captured = graph::make_captured(std::move(apart), {});
    deferred.runner = tracer_.keep(graph::make_runner(captured.get(), nullptr));
    return deferred;
}

void DeferredGraphCapture::give_results(Node* node, std::span<TensorValue* const> results,
                                        std::span<const torch_room::TensorMeta* const> metas) {
    node->result.kind = graph::Result::Kind::Tuple;
    for (std::size_t i = 0; i < results.size(); ++i) {
        graph::Result part;
        part.kind = graph::Result::Kind::Tensor;
        part.tensor = metas[i];
        node->result.items.push_back(part);
        Node* item = recorder_.add_item(node, i, part);
        tracer_.on_undo([tensor = results[i], before = results[i]->node, of = results[i]->meta] {
            tensor->node = before;
            tensor->meta = of;
        });
        results[i]->node = item;
        results[i]->meta = metas[i];
    }
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
    node->has_effect = recomputed.has_effect;
    node->is_random = recomputed.is_random;
    node->may_fail = recomputed.may_fail;
    node->is_visible_to_program = recomputed.is_visible_to_program;
    recorder_.note_lasting(node, recomputed.is_lasting);
    std::vector<const torch_room::TensorMeta*> metas;
    for (const TensorValue* result : results) {
        metas.push_back(result->meta);
        if (recomputed_.insert(result).second) tracer_.on_undo([this, result] { recomputed_.erase(result); });
    }
    give_results(node, results, metas);
}

}  // namespace stator
