#include "value/tensor/gradients.h"

#include <algorithm>
#include <unordered_set>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "value/builtins/builtin.h"
#include "value/deferred_graph.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, const std::string& why) {
    tracer.break_graph(BreakKind::UnsupportedTensor, "autograd is run inside the compiled function" + why);
}

PyObject* grad_function() {
    static PyObject* const function = imported("torch.autograd", "grad");
    return function;
}

PyObject* backward_function() {
    static PyObject* const function = imported("stator.gradients", "gradients_of");
    return function;
}

/// Whether an optional argument is absent or this constant.
bool is_default(Tracer& tracer, Value* value, PyObject* constant) {
    if (value == nullptr) return true;
    tracer.realize(value);
    return value->object() == constant;
}

/// A tensor that requires grad.
TensorValue* differentiable(Tracer& tracer, Value* value) {
    tracer.realize(value);
    auto* tensor = cast<TensorValue>(value);
    if (tensor == nullptr || tensor->is_of_object || tensor->is_row || !tensor->meta->requires_grad)
        refuse(tracer, " on an object that is not a tensor with requires_grad");
    return tensor;
}

/// One tensor, or those of a list, a tuple, or a dict.
std::vector<TensorValue*> tensors_of(Tracer& tracer, Value* given) {
    tracer.realize(given);
    std::vector<TensorValue*> tensors;
    if (SequenceValue* sequence = as_sequence(given)) {
        for (Value* item : sequence->all(tracer)) tensors.push_back(differentiable(tracer, item));
    } else {
        tensors.push_back(differentiable(tracer, given));
    }
    return tensors;
}

bool may_carry_gradient(const graph::Result& result) {
    using Kind = graph::Result::Kind;
    if (result.kind == Kind::Tensor) return result.tensor->requires_grad;
    return std::ranges::any_of(result.items, may_carry_gradient);
}

/// The nodes that a gradient of these tensors may reach. Every write counts: it may be one through a view.
std::unordered_set<const graph::Node*> reached(Tracer& tracer, const std::vector<TensorValue*>& from) {
    std::unordered_set<const graph::Node*> found;
    std::vector<const graph::Node*> open;
    auto visit = [&](const graph::Node* node) {
        if (may_carry_gradient(node->result) && found.insert(node).second) open.push_back(node);
    };
    for (const TensorValue* tensor : from) visit(tensor->node);
    for (const graph::Node* node : tracer.recorder().graph().nodes())
        if (node->has_effect) graph::for_each_input(*node, visit);
    while (!open.empty()) {
        const graph::Node* node = open.back();
        open.pop_back();
        graph::for_each_input(*node, visit);
    }
    return found;
}

/// Whether it was written to after it became a leaf: what used it before knows it by another node.
bool is_rewritten(const TensorValue* leaf) {
    return leaf->node->result.same_as_argument >= 0 && leaf->node->target != interned("requires_grad_");
}

/// Breaks the graph if a gradient reaches a tensor whose history began before the call: only `ends` may be such.
void expect_own_history(Tracer& tracer, const std::unordered_set<const graph::Node*>& nodes,
                        const std::vector<TensorValue*>& ends) {
    const std::vector<TensorValue*>& leaves = tracer.modes().leaves();
    for (const graph::Node* node : nodes) {
        if (node->kind != graph::NodeKind::Placeholder && node->kind != graph::NodeKind::Attribute) continue;
        if (std::ranges::find(ends, node, &TensorValue::node) != ends.end()) continue;
        if (std::ranges::find(leaves, node, &TensorValue::node) == leaves.end())
            refuse(tracer, ", and reaches a history from before the call");
    }
}

/// Hooks would be called in the middle of the graph, and those on an accumulated gradient not at all.
void expect_no_hooks(Tracer& tracer, TensorValue* tensor) {
    if (tensor->source == nullptr) return;
    guard_autograd_state(tracer, tensor);
    for (const char* name : {"_backward_hooks", "_post_accumulate_grad_hooks"}) {
        Ref<> held = checked(PyObject_GetAttrString(tensor->outside, name));
        if (held.get() != Py_None) refuse(tracer, ", and an input has hooks");
        tracer.realize(tracer.outside(
            tracer.provenance().child(tensor->source, Access::Member, interned(name), 0, held.get()), held.get()));
    }
}

/// Compilers that recompute activations look for what computes gradients.
void mark_as_backward(Tracer& tracer, graph::Node* node) {
    Ref<> meta = checked(PyDict_New());
    checked(PyDict_SetItemString(meta.get(), "autograd_backward", Py_True));
    node->extra_meta = tracer.recorder().graph_arena().keep(std::move(meta));
}

/// The gradients that a node computes, one for each of these tensors.
std::vector<Value*> results_of(Tracer& tracer, graph::Node* node, const std::vector<TensorValue*>& of) {
    Recorder& recorder = tracer.recorder();
    mark_as_backward(tracer, node);
    node->has_effect = node->is_visible_to_program = false;
    node->may_fail = true;
    node->result.kind = graph::Result::Kind::Tuple;
    std::vector<graph::Result> parts;
    for (const TensorValue* tensor : of) {
        auto* meta = recorder.graph_arena().make<torch_room::TensorMeta>(*tensor->meta);
        meta->requires_grad = false;
        meta->is_leaf = true;
        meta->python_class = nullptr;
        graph::Result part;
        part.kind = graph::Result::Kind::Tensor;
        part.tensor = meta;
        parts.push_back(part);
    }
    node->result.items = parts;
    auto* whole = tracer.make<NodeValue>(node);
    std::vector<Value*> results;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        graph::Node* item = recorder.emit_effect(
            getitem_function(),
            Arguments::of(static_cast<Value*>(whole), tracer.integer(static_cast<std::int64_t>(i))));
        item->has_effect = item->is_visible_to_program = false;
        item->result = parts[i];
        auto* gradient = tracer.make<TensorValue>();
        gradient->node = item;
        gradient->meta = parts[i].tensor;
        gradient->is_gradient = true;
        results.push_back(gradient);
    }
    return results;
}

void expect_capturable(Tracer& tracer) {
    if (!tracer.modes().captures_autograd()) refuse(tracer, "");
    if (tracer.deferred_graphs().is_open()) refuse(tracer, " in a backward pass or a checkpointed function");
}

}  // namespace

Outcome capture_gradients(Tracer& tracer, const Arguments& arguments) {
    expect_capturable(tracer);
    std::vector<Value*> bound = bind_builtin(tracer, "grad", arguments,
                                             {"outputs", "inputs", "grad_outputs", "retain_graph", "create_graph",
                                              "only_inputs", "allow_unused", "is_grads_batched", "materialize_grads"},
                                             2);
    if (!is_default(tracer, bound[4], Py_False)) refuse(tracer, " with create_graph=True");
    bool is_usual = is_default(tracer, bound[5], Py_True) && is_default(tracer, bound[7], Py_False) &&
                    is_default(tracer, bound[8], Py_False) &&
                    (is_default(tracer, bound[6], Py_None) || is_default(tracer, bound[6], Py_False));
    if (!is_usual) refuse(tracer, " with unusual arguments");
    std::vector<TensorValue*> outputs = tensors_of(tracer, bound[0]), inputs = tensors_of(tracer, bound[1]);
    expect_own_history(tracer, reached(tracer, outputs), inputs);
    for (TensorValue* input : inputs) {
        if (is_rewritten(input)) refuse(tracer, " for a tensor that was written to");
        expect_no_hooks(tracer, input);
    }
    graph::Node* node = tracer.recorder().emit_effect(grad_function(), arguments);
    return make_tuple(tracer, results_of(tracer, node, inputs));
}

namespace {

std::vector<TensorValue*> leaves_of_backward(Tracer& tracer, TensorValue* result, Value* given) {
    const std::unordered_set<const graph::Node*> nodes = reached(tracer, {result});
    std::vector<TensorValue*> leaves;
    if (is_default(tracer, given, Py_None)) {
        for (TensorValue* leaf : tracer.modes().leaves()) {
            if (!leaf->meta->requires_grad) continue;
            if (is_rewritten(leaf)) refuse(tracer, ", and a leaf was written to");
            if (nodes.contains(leaf->node)) leaves.push_back(leaf);
        }
    } else {
        for (TensorValue* leaf : tensors_of(tracer, given)) {
            if (!leaf->meta->is_leaf || is_rewritten(leaf)) refuse(tracer, " for inputs that are not leaves");
            if (std::ranges::find(leaves, leaf) == leaves.end()) leaves.push_back(leaf);
        }
    }
    if (leaves.empty()) refuse(tracer, ", and no leaf is known");
    expect_own_history(tracer, nodes, leaves);
    for (TensorValue* leaf : leaves) expect_no_hooks(tracer, leaf);
    return leaves;
}

/// Adds a gradient to that of a leaf, as autograd does: in place, if there is one.
Task accumulate(Tracer& tracer, std::vector<TensorValue*> leaves, std::vector<Value*> gradients) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
        Value* before = co_await operations::get_attribute(tracer, leaves[i], interned("grad"));
        tracer.realize(before);
        auto* held = cast<TensorValue>(before);
        if (held != nullptr && held->meta->requires_grad) refuse(tracer, ", and a gradient has a history");
        if (held != nullptr)
            tracer.recorder().emit_method(interned("add_"), Arguments::of(before, gradients[i]));
        else if (!leaves[i]->set_kept_attribute(tracer, interned("grad"), gradients[i]))
            refuse(tracer, ", and the gradient of a leaf can't be set");
    }
    co_return tracer.none();
}

}  // namespace

Outcome capture_backward(Tracer& tracer, const Arguments& arguments) {
    expect_capturable(tracer);
    std::vector<Value*> bound =
        bind_builtin(tracer, "backward", arguments, {"self", "gradient", "retain_graph", "create_graph", "inputs"}, 1);
    if (!is_default(tracer, bound[3], Py_False)) refuse(tracer, " with create_graph=True");
    TensorValue* result = differentiable(tracer, bound[0]);
    std::vector<TensorValue*> leaves = leaves_of_backward(tracer, result, bound[4]);
    auto or_none = [&](Value* value) { return value == nullptr ? tracer.none() : value; };
    Arguments given = Arguments::of(static_cast<Value*>(result), or_none(bound[1]), or_none(bound[2]));
    given.positional.push_back(make_tuple(tracer, std::vector<Value*>(leaves.begin(), leaves.end())));
    graph::Node* node = tracer.recorder().emit_effect(backward_function(), given);
    std::vector<Value*> gradients = results_of(tracer, node, leaves);
    return tracer.start(accumulate(tracer, std::move(leaves), std::move(gradients)));
}

void check_results_after_autograd(Tracer& tracer, const graph::Argument::Items& results) {
    if (tracer.run_by() != Tracer::RunBy::Compiler || !tracer.modes().captures_autograd()) return;
    const auto& nodes = tracer.recorder().graph().nodes();
    const bool is_concerned = std::ranges::any_of(nodes, [](const graph::Node* node) {
        return node->target == grad_function() || node->target == backward_function() ||
               node->target == interned("requires_grad_");
    });
    if (is_concerned && std::ranges::any_of(results.values, [](const graph::Argument& result) {
            return may_carry_gradient(result.node->result);
        }))
        tracer.recorder().keep_as_captured();
}

}  // namespace stator
