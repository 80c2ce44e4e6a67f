#include "value/tensor/tensor_indices.h"

#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"
#include "value/higher_order/pytrees.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

bool is_int(const Value* value) {
    return value->kind == Kind::Constant && value->object() != nullptr && PyLong_Check(value->object());
}

/// Inside of `torch.vmap`: the operation that PyTorch computes in this mode.
Value* emit_index(Tracer& tracer, TensorValue* tensor, std::vector<Value*> indices) {
    static PyObject* const index = imported("torch", "ops.aten.index.Tensor");
    static PyObject* const full = imported("torch", "full");
    static PyObject* const int64 = imported("torch", "int64");
    // (PyTorch's backward pass of an index in this mode is another one, which rejects indices for some dimensions.)
    if (tensor->meta->requires_grad && tracer.modes().current().grad)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "a tensor with gradients is indexed by tensors inside of TransformGetItemToIndex");
    for (Value*& one : indices) {
        if (!is_int(one)) continue;
        Arguments arguments = Arguments::of(static_cast<Value*>(make_tuple(tracer, {})), one);
        arguments.keywords.push_back({interned("dtype"), tracer.constant(int64)});
        arguments.keywords.push_back({interned("device"), tensor->get_attribute(tracer, interned("device")).value()});
        one = tracer.recorder().emit_function(full, arguments);
    }
    return tracer.recorder().emit_function(
        index, Arguments::of(static_cast<Value*>(tensor), static_cast<Value*>(make_list(tracer, std::move(indices)))));
}

/// In a subgraph: `[]` itself, which PyTorch runs in this mode. Every index takes one dimension away.
Value* emit_item(Tracer& tracer, TensorValue* tensor, Value* key, const std::vector<Value*>& indices) {
    for (const Value* one : indices) {
        const auto* index = cast<TensorValue>(one);
        if (index != nullptr && (!index->meta->sizes.empty() || (index->meta->dtype != torch_room::dtype::kInt &&
                                                                 index->meta->dtype != torch_room::dtype::kLong)))
            tracer.break_graph(BreakKind::UnsupportedTensor,
                               "flex_attention: a function indexes a tensor by other than integers without dimensions");
    }
    torch_room::TensorMeta part = *tensor->meta;
    const bool is_whole = indices.size() == part.sizes.size();
    if (indices.size() > part.sizes.size() || (!is_whole && !shape::is_contiguous(part.sizes, part.strides)))
        tracer.break_graph(
            BreakKind::UnsupportedTensor,
            "flex_attention: a function indexes a tensor that is not contiguous, or by too many indices");
    part.sizes.erase(part.sizes.begin(), part.sizes.begin() + static_cast<std::ptrdiff_t>(indices.size()));
    part.strides = shape::contiguous_strides(part.sizes);
    part.storage_offset = 0;
    part.requires_grad = part.requires_grad && tracer.modes().current().grad;
    part.is_leaf = !part.requires_grad;
    graph::Node* node =
        tracer.recorder().emit_effect(getitem_function(), Arguments::of(static_cast<Value*>(tensor), key));
    node->has_effect = node->is_visible_to_program = false;
    node->may_fail = true;
    node->result.kind = graph::Result::Kind::Tensor;
    node->result.tensor = tracer.recorder().graph_arena().make<torch_room::TensorMeta>(part);
    auto* result = tracer.make<TensorValue>();
    result->node = node;
    result->meta = node->result.tensor;
    return result;
}

}  // namespace

bool is_indexing_mode(const Value* mode) {
    static PyTypeObject* const indexing =
        imported_class("torch._dynamo._trace_wrapped_higher_order_op", "TransformGetItemToIndex");
    return mode->type() == indexing;
}

Value* item_by_tensors(Tracer& tracer, TensorValue* tensor, Value* key) {
    if (!tracer.modes().indexes_by_tensors()) return nullptr;
    std::optional<Leaves> indices = flatten(tracer, key);
    if (!indices || indices->values.empty()) return nullptr;
    if (!std::ranges::all_of(indices->values,
                             [](const Value* one) { return one->kind == Kind::Tensor || is_int(one); }))
        return nullptr;
    if (tracer.recorder().is_in_transform()) return emit_index(tracer, tensor, std::move(indices->values));
    return emit_item(tracer, tensor, key, indices->values);
}

}  // namespace stator
