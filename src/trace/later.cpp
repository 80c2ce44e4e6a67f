/// Operations that run later than the graph they were met in (a backward pass): taken out of it into a graph of their
/// own, whose further inputs are the tensors they read from before.
#include <unordered_map>

#include "base/names.h"
#include "base/python_error.h"
#include "graph/captured.h"
#include "graph/runner.h"
#include "trace/interpreter.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

using graph::Argument;
using graph::Node;
using graph::NodeKind;

bool is_held(const Node* node) {
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
        STATOR_CHECK(found != copies_.end(), "a later operation reads what is not known to be there");
        return found->second;
    }
    bool has(const Node* original) const { return copies_.contains(original); }

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

bool Interpreter::predates_later(const Node* node) const {
    return node->index < later_->start || is_held(node);
}

void Interpreter::expect_own(const TensorValue* written) {
    for (; later_ && written != nullptr; written = written->view_of)
        if (predates_later(written->node))
            break_graph(BreakKind::UnsupportedTensor,
                        "a backward pass or a checkpointed function writes to a tensor that it did not create");
}

void Interpreter::expect_not_recomputed(const TensorValue* written) {
    for (; !recomputed_.empty() && written != nullptr; written = written->view_of)
        if (recomputed_.contains(written))
            break_graph(BreakKind::UnsupportedTensor, "an in-place operation on a result of a checkpointed function");
}

bool Interpreter::is_made_later(const TensorValue* tensor) const {
    return tensor->node != nullptr && !predates_later(tensor->node);
}

void Interpreter::begin_later(LaterKind kind) {
    if (later_)
        break_graph(BreakKind::UnsupportedTensor,
                    "a hook, torch.autograd.Function or checkpoint inside of another one's backward pass");
    on_undo([this] { later_.reset(); });
    later_ = LaterPart{graph_->size(), kind, {}, {}, {}};
}

Tracer::Later Interpreter::end_later(std::span<TensorValue* const> inputs, std::span<Value* const> outputs) {
    Later later;
    check_read_made();
    later.rereads = later_->rereads;
    auto apart = std::make_unique<graph::Graph>();
    Copier copier(*apart);
    for (TensorValue* input : inputs) copier.add_input(input->node);
    auto read = [&](const Node* node, TensorValue* tensor) {
        if (!predates_later(node) || copier.has(node)) return;
        copier.add_input(node);
        later.reads.push_back(tensor);
    };
    // What only the stand-ins of inputs were made from is not read.
    std::unordered_map<const Node*, TensorValue*> tensors(later_->read.begin(), later_->read.end());
    for (std::size_t i = later_->start; i < graph_->size(); ++i) {
        const Node* node = graph_->at(i);
        if (is_held(node) || copier.has(node)) continue;
        graph::for_each_input(*node, [&](const Node* taken) {
            if (auto found = tensors.find(taken); found != tensors.end()) read(taken, found->second);
        });
    }
    auto* items = apart->arena().make<Argument::Items>();
    for (Value* output : outputs) {
        auto* tensor = cast<TensorValue>(output);
        if (tensor == nullptr) continue;
        realize(tensor);
        read(tensor->node, tensor);
    }
    for (const Node* node : graph_->take(later_->start)) {
        later.has_effect |= node->has_effect;
        later.is_random |= node->is_random;
        later.may_fail |= node->may_fail;
        later.is_seen |= node->is_seen;
        later.is_lasting |= node->is_lasting;
        if (!copier.has(node)) copier.add(*node);
    }
    for (Value* output : outputs) {
        auto* tensor = cast<TensorValue>(output);
        items->values.push_back(tensor == nullptr ? Argument::of_constant(Py_None)
                                                  : Argument::of(copier.of(tensor->node)));
    }
    apart->add(NodeKind::Output, interned("output"), {Argument::of_items(Argument::Kind::Tuple, items)});
    apart->finish();
    later_.reset();
    Ref<> captured = graph::make_captured(std::move(apart), {});
    later.runner = keep(graph::make_runner(captured.get(), nullptr));
    return later;
}

void Interpreter::give_results(Node* node, std::span<TensorValue* const> results,
                               std::span<const torch_room::TensorMeta* const> metas) {
    node->result.kind = graph::Result::Kind::Tuple;
    for (std::size_t i = 0; i < results.size(); ++i) {
        graph::Result part;
        part.kind = graph::Result::Kind::Tensor;
        part.tensor = metas[i];
        node->result.items.push_back(part);
        PyObject* index = graph_->arena().keep(checked(PyLong_FromSize_t(i)));
        Node* item =
            graph_->add(NodeKind::Function, getitem_function(), {Argument::of(node), Argument::of_constant(index)});
        item->result = part;
        item->location = node->location;
        item->modules = node->modules;
        on_undo([tensor = results[i], before = results[i]->node, of = results[i]->meta] {
            tensor->node = before;
            tensor->meta = of;
        });
        results[i]->node = item;
        results[i]->meta = metas[i];
    }
}

void Interpreter::emit_history(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results) {
    Node* node = emit_effect(function, arguments);
    node->has_effect = node->is_seen = false;
    std::vector<const torch_room::TensorMeta*> metas;
    for (const TensorValue* result : results) {
        auto* meta = graph_->arena().make<torch_room::TensorMeta>(*result->meta);
        meta->requires_grad = true;
        meta->is_leaf = false;
        metas.push_back(meta);
    }
    give_results(node, results, metas);
}

void Interpreter::emit_part(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results,
                            const Later& part) {
    if (is_to_stop(function, true))
        break_graph(
            BreakKind::OperationFails,
            "a checkpointed function or a torch.autograd.Function that failed in an earlier run of the captured graph");
    Node* node = emit_effect(function, arguments);
    node->has_effect = part.has_effect;
    node->is_random = part.is_random;
    node->may_fail = part.may_fail;
    node->is_seen = part.is_seen;
    note_lasting(node, part.is_lasting);
    std::vector<const torch_room::TensorMeta*> metas;
    for (const TensorValue* result : results) {
        metas.push_back(result->meta);
        if (recomputed_.insert(result).second) on_undo([this, result] { recomputed_.erase(result); });
    }
    give_results(node, results, metas);
}

}  // namespace stator
