#include "trace/view_histories.h"

#include <algorithm>

#include "base/imported.h"
#include "base/names.h"

namespace stator {

namespace {

bool detaches(const graph::Node& maker) {
    static PyObject* const functions[] = {imported("torch", "detach"), imported("torch", "ops.aten.detach.default"),
                                          imported("torch", "ops.aten.detach")};
    if (maker.kind == graph::NodeKind::Method) return maker.target == interned("detach");
    return maker.target == data_function() || std::ranges::find(functions, maker.target) != std::end(functions);
}

/// The tensor that autograd takes a view for a view of.
const TensorValue* autograd_base(const TensorValue* tensor) {
    while (tensor->view_of != nullptr && !tensor->is_detached) tensor = tensor->view_of;
    return tensor;
}

}  // namespace

void ViewHistories::note_view(TensorValue* view, const graph::Node& maker) {
    view->is_detached = detaches(maker);
    views_.push_back(view);
    tracer_.on_undo([this] { views_.pop_back(); });
}

bool ViewHistories::has_views(const TensorValue* tensor) const {
    return std::ranges::any_of(views_, [base = autograd_base(tensor)](const TensorValue* view) {
        return !view->is_detached && autograd_base(view) == base;
    });
}

void ViewHistories::note_history(const TensorValue* written) {
    const TensorValue* base = autograd_base(written);
    auto follow = [&](TensorValue* tensor) {
        if (tensor->meta == nullptr || tensor->meta->requires_grad) return;
        auto* meta = arena_.make<torch_room::TensorMeta>(*tensor->meta);
        meta->requires_grad = true;
        meta->is_leaf = false;
        tracer_.on_undo([tensor, before = tensor->meta] { tensor->meta = before; });
        tensor->meta = meta;
    };
    follow(const_cast<TensorValue*>(base));
    for (TensorValue* view : views_)
        if (autograd_base(view) == base) follow(view);
}

}  // namespace stator
