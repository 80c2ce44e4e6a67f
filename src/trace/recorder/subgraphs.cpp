/// The part of `DeferredGraphCapture` for subgraphs, which higher-order operations run.
#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "trace/recorder/copier.h"
#include "trace/recorder/deferred_graphs.h"
#include "trace/recorder/graph_recorder.h"
#include "trace/recorder/subgraph_modules.h"
#include "value/tensor/tensor.h"

namespace stator {

using graph::Argument;
using graph::Node;
using graph::NodeKind;

TensorValue* DeferredGraphCapture::add_input(const torch_room::TensorMeta& meta) {
    static PyObject* const made_by = imported("torch", "empty");  // never called: a placeholder replaces it
    Node* node = recorder_.graph().add(NodeKind::Function, made_by, {});
    node->result.kind = graph::Result::Kind::Tensor;
    node->result.tensor = recorder_.graph_arena().make<torch_room::TensorMeta>(meta);
    open_.back().inputs.push_back(node);
    auto* tensor = tracer_.make<TensorValue>();
    tensor->node = node;
    tensor->meta = node->result.tensor;
    return tensor;
}

void DeferredGraphCapture::add_unused_input(Borrowed<> number) {
    static PyObject* const made_by = imported("torch", "empty");
    Node* node = recorder_.graph().add(NodeKind::Function, made_by, {});
    node->result.kind = graph::Result::Kind::Constant;
    node->result.constant = recorder_.graph_arena().keep(Ref<>::share(number.get()));
    open_.back().inputs.push_back(node);
}

bool DeferredGraphCapture::is_own_input(const TensorValue* tensor) const {
    return std::ranges::any_of(
        open_, [&](const Open& open) { return std::ranges::find(open.inputs, tensor->node) != open.inputs.end(); });
}

std::vector<Node*> DeferredGraphCapture::lifted(std::span<const Argument> outputs) {
    const Open& open = open_.back();
    std::vector<Node*> found;
    std::unordered_set<const Node*> known(open.inputs.begin(), open.inputs.end());
    auto lift = [&](Node* node) {
        if (!predates(node) || !known.insert(node).second) return;
        if (!take_floats() && node->result.kind == graph::Result::Kind::Constant &&
            node->result.expression != nullptr && node->result.expression->is_float)
            tracer_.break_graph(BreakKind::UnsupportedTensor,
                                "the function of a higher-order operation reads a float that depends on data");
        // (A compiler finds the symbols of a size among the inputs.)
        for (Node* symbol : recorder_.numbers().symbols_of(node->result))
            if (predates(symbol) && known.insert(symbol).second) found.push_back(symbol);
        found.push_back(node);
    };
    for (Node* input : open.inputs)
        for (Node* symbol : recorder_.numbers().symbols_of(input->result)) lift(symbol);
    const graph::Graph& main = recorder_.graph();
    const std::size_t size = main.size();  // (symbols may become placeholders now)
    for (std::size_t i = open.start; i < size; ++i)
        if (!known.contains(main.at(i))) graph::for_each_input(*main.at(i), lift);
    for (const Argument& output : outputs) graph::for_each_node(output, lift);
    return found;
}

Subgraph DeferredGraphCapture::end_subgraph(std::span<Value* const> outputs) {
    STATOR_CHECK(is_open() && !runs_later(), "no subgraph is open");
    Subgraph subgraph;
    for (Value* output : outputs) {
        tracer_.realize(output);
        subgraph.outputs.push_back(output->as_argument(tracer_));
    }
    subgraph.inputs = open_.back().inputs;
    subgraph.lifted = lifted(subgraph.outputs);
    for (Node* node : recorder_.graph().take(open_.back().start)) {
        if (std::ranges::find(subgraph.inputs, node) != subgraph.inputs.end()) continue;
        subgraph.add(flags_of(*node));
        subgraph.nodes.push_back(node);
        subgraph.variables.push_back(std::move(open_.back().variables[node]));
    }
    recorder_.numbers().forget(subgraph.nodes);
    open_.pop_back();
    return subgraph;
}

void DeferredGraphCapture::note_name(const Node* node, std::string variable) {
    if (!node->is_named) open_.back().variables.emplace(node, std::move(variable));
}

AddedModule DeferredGraphCapture::add_module(Subgraph subgraph, SubgraphModule module) {
    PyObject* target = nullptr;
    const bool is_shared = module.is_shared;
    if (is_shared)
        for (PyObject* earlier : shared_)
            if (are_equal(pending_of(earlier)->subgraph, subgraph)) target = earlier;
    if (target == nullptr) {
        std::string attribute = module.name + "_" + std::to_string(modules_[module.name]++);
        tracer_.on_undo([this, key = module.name] { --modules_[key]; });
        target =
            recorder_.graph_arena().keep(make_pending({std::move(subgraph), std::move(module), std::move(attribute)}));
        if (is_shared) {
            shared_.push_back(target);
            tracer_.on_undo([this] { shared_.pop_back(); });
        }
    }
    Node* node = recorder_.graph().add(NodeKind::Function, target, {});
    recorder_.locations().locate(node);
    return {node, pending_of(target)->attribute};
}

Node* DeferredGraphCapture::emit_higher_order(Borrowed<> operation, std::vector<Argument> arguments,
                                              std::vector<graph::KeywordArgument> keywords, const GraphFlags& flags) {
    recorder_.expect_no_stop(operation, "a higher-order operation that failed in an earlier run of the captured graph");
    Node* node = recorder_.graph().add(NodeKind::Function, operation, std::move(arguments), std::move(keywords));
    set_flags(node, flags);
    recorder_.locations().locate(node);
    return node;
}

}  // namespace stator
