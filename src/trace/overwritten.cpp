/// What a backward pass must not compute again. PyTorch's compilers save little for it: much of what the forward pass
/// computed is computed once more, from the inputs. An input that the graph writes to is another one by then, and the
/// gradients would be wrong without a word. So whatever reads such an input is marked as to be saved.
#include <algorithm>
#include <unordered_set>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "trace/interpreter.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

/// An entry of `Node.meta` that PyTorch's partitioners read.
PyObject* meta_of_saved() {
    static PyObject* const meta = [] {
        Ref<> policies = Ref<>::steal(imported("torch.utils.checkpoint", "CheckpointPolicy"));
        Ref<> policy = checked(PyObject_GetAttrString(policies.get(), "MUST_SAVE"));
        return checked(Py_BuildValue("{sO}", "recompute", policy.get())).release();
    }();
    return meta;
}

/// Whether it writes to statistics that its result does not depend on: to save what normalizes would cost much memory.
bool only_updates_statistics(const graph::Node& node) {
    if (!node.has_effect || node.kind != graph::NodeKind::Function) return false;
    Ref<> name = Ref<>::steal(PyObject_GetAttrString(node.target, "__name__"));
    PyErr_Clear();
    if (!name || !PyUnicode_Check(name.get())) return false;
    return utf8(name.get()) == "batch_norm" || utf8(name.get()) == "instance_norm";
}

}  // namespace

void Interpreter::save_what_reads_overwritten() {
    auto has_gradient = [](const graph::Node* node) {
        return node->kind != graph::NodeKind::Placeholder && node->result.kind == graph::Result::Kind::Tensor &&
               node->result.tensor->requires_grad;
    };
    if (written_.empty() || std::ranges::none_of(graph_->nodes(), has_gradient)) return;
    std::unordered_set<const graph::Node*> overwritten;
    for (const TensorValue* tensor : written_) overwritten.insert(memory_of(tensor->node));
    for (graph::Node* node : graph_->nodes()) {
        if (node->kind != graph::NodeKind::Function && node->kind != graph::NodeKind::Method) continue;
        bool reads = false;
        for_each_input(*node,
                       [&](const graph::Node* input) { reads = reads || overwritten.contains(memory_of(input)); });
        if (reads && !only_updates_statistics(*node)) node->extra_meta = meta_of_saved();
    }
}

}  // namespace stator
