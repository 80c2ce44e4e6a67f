#include "value/higher_order/operands.h"

#include <algorithm>

#include "torch/dtypes.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/recorder.h"
#include "value/torch_modes.h"

namespace stator {

using graph::Argument;

std::vector<Argument> as_arguments(std::span<graph::Node* const> nodes) {
    std::vector<Argument> arguments;
    for (graph::Node* node : nodes) arguments.push_back(Argument::of(node));
    return arguments;
}

Argument as_container(Tracer& tracer, std::vector<Argument> items, Argument::Kind kind) {
    auto* made = tracer.recorder().graph_arena().make<Argument::Items>();
    made->values = std::move(items);
    return Argument::of_items(kind, made);
}

std::vector<Argument> as_arguments(Tracer& tracer, std::span<Value* const> values) {
    std::vector<Argument> arguments;
    for (Value* value : values) {
        if (value->kind != Kind::Constant) tracer.realize(value);
        arguments.push_back(value->as_argument(tracer));
    }
    return arguments;
}

bool needs_gradient(Tracer& tracer, std::span<const Argument> operands) {
    if (!tracer.modes().current().grad) return false;
    bool needs = false;
    for (const Argument& operand : operands)
        graph::for_each_node(operand, [&](const graph::Node* node) {
            needs = needs || (node->result.kind == graph::Result::Kind::Tensor && node->result.tensor->requires_grad);
        });
    return needs;
}

const torch_room::TensorMeta* result_meta(Tracer& tracer, const torch_room::TensorMeta& made, bool needs_gradient) {
    auto* meta = tracer.recorder().graph_arena().make<torch_room::TensorMeta>(made);
    meta->requires_grad = needs_gradient && torch_room::can_have_grad(meta->dtype);
    meta->is_leaf = !meta->requires_grad;
    return meta;
}

SubgraphModule merged_operands(const Subgraph& left, const char* left_suffix, const Subgraph& right,
                               const char* right_suffix) {
    auto reads = [](const Subgraph& subgraph, graph::Node* node) {
        return std::ranges::find(subgraph.lifted, node) != subgraph.lifted.end();
    };
    SubgraphModule merged;
    auto add = [&](const std::vector<graph::Node*>& nodes, const Subgraph& other, bool by_both, const char* suffix) {
        const std::size_t before = merged.operands.size();
        for (graph::Node* node : nodes) {
            if (reads(other, node) != by_both) continue;
            merged.operands.push_back(node);
            merged.suffixes.push_back(suffix);
        }
        merged.sorted.push_back(merged.operands.size() - before);
    };
    add(left.lifted, right, true, "");
    add(left.lifted, right, false, left_suffix);
    add(right.lifted, left, false, right_suffix);
    return merged;
}

void give_own_results(Tracer& tracer, graph::Node* operation, std::span<TensorValue* const> results,
                      bool needs_gradient) {
    std::vector<const torch_room::TensorMeta*> metas;
    for (TensorValue* result : results) {
        metas.push_back(result == nullptr ? nullptr : result_meta(tracer, *result->meta, needs_gradient));
        if (result != nullptr) set_undoably(tracer, result->view_of, nullptr);
    }
    tracer.deferred_graphs().give_results(operation, results, metas);
}

std::vector<Value*> items_of(Tracer& tracer, const SubgraphTrace& trace, Value* value) {
    tracer.realize(value);
    SequenceValue* sequence = as_sequence(value);
    if (sequence == nullptr) trace.refuse("it is called with a " + value->print() + " instead of a tuple or list");
    return sequence->all(tracer);
}

}  // namespace stator
