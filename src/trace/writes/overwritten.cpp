/// Keeps a backward pass from computing something again from inputs that the graph writes to.
///
/// PyTorch's compilers save little for the backward pass: they compute much of the forward pass once more, from the
/// inputs. If the graph has overwritten an input by then, the gradients would be silently wrong. So every node that
/// reads such an input is marked to be saved.
#include <algorithm>
#include <unordered_set>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "trace/writes/input_writes.h"

namespace stator {

namespace {

/// The entry of `Node.meta` by which PyTorch's partitioners save a result.
PyObject* meta_of_saved() {
    static PyObject* const meta = [] {
        Ref<> policies = Ref<>::steal(imported("torch.utils.checkpoint", "CheckpointPolicy"));
        Ref<> policy = checked(PyObject_GetAttrString(policies.get(), "MUST_SAVE"));
        return checked(Py_BuildValue("{sO}", "recompute", policy.get())).release();
    }();
    return meta;
}

/// Whether a node writes only to running statistics, which its result does not depend on. Saving the result of every
/// normalization would take much memory.
bool only_updates_statistics(const graph::Node& node) {
    if (!node.has_effect || node.kind != graph::NodeKind::Function) return false;
    Ref<> name = Ref<>::steal(PyObject_GetAttrString(node.target, "__name__"));
    PyErr_Clear();
    if (!name || !PyUnicode_Check(name.get())) return false;
    return utf8(name.get()) == "batch_norm" || utf8(name.get()) == "instance_norm";
}

}  // namespace

void InputWrites::mark_readers_as_saved(const graph::Graph& graph) const {
    auto has_gradient = [](const graph::Node* node) {
        return node->kind != graph::NodeKind::Placeholder && node->result.kind == graph::Result::Kind::Tensor &&
               node->result.tensor->requires_grad;
    };
    if (written_.empty() || std::ranges::none_of(graph.nodes(), has_gradient)) return;
    std::unordered_set<const graph::Node*> overwritten;
    for (const TensorValue* tensor : written_) overwritten.insert(memory_of(tensor->node));
    for (graph::Node* node : graph.nodes()) {
        if (node->kind != graph::NodeKind::Function && node->kind != graph::NodeKind::Method) continue;
        bool reads = false;
        for_each_input(*node,
                       [&](const graph::Node* input) { reads = reads || overwritten.contains(memory_of(input)); });
        if (reads && !only_updates_statistics(*node)) node->extra_meta = meta_of_saved();
    }
}

}  // namespace stator
