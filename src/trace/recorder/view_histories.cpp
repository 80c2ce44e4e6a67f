#include "trace/recorder/view_histories.h"

#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "torch/dtypes.h"
#include "value/torch_modes.h"

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

Source* ViewHistories::outside_base(TensorValue* input) {
    // Each later check of the guard would call the modes of the program that are active where the region begins.
    if (!tracer_.modes().function_modes_at_entry().empty())
        tracer_.break_graph(BreakKind::UnsupportedTensor,
                            "the history of views of an input matters inside of a torch function mode");
    PyObject* base = tracer_.keep(checked(PyObject_GetAttrString(input->outside, "_base")));
    Source* place = tracer_.provenance().child(input->source, Access::Member, interned("_base"), 0, base);
    if (base == Py_None) {
        tracer_.guard({GuardKind::Identity, place, Py_None});
        return input->source;
    }
    tracer_.guard({GuardKind::Type, place, reinterpret_cast<PyObject*>(Py_TYPE(base))});
    return place;
}

bool ViewHistories::share_base(TensorValue* one, TensorValue* other) {
    Source *left = outside_base(one), *right = outside_base(other);
    const bool is_same = left->object == right->object;
    if (left->access == Access::Pinned) std::swap(left, right);
    if (left->access != Access::Pinned)
        tracer_.guard({is_same ? GuardKind::Same : GuardKind::Different, left, nullptr, 0, right});
    return is_same;
}

void ViewHistories::note_input(TensorValue* input) {
    if (input->is_of_object || input->meta->requires_grad || !torch_room::can_have_grad(input->meta->dtype)) return;
    inputs_.push_back(input);
    tracer_.on_undo([this] { inputs_.pop_back(); });
    for (TensorValue* written : with_new_histories_)
        if (share_base(written, input)) return follow(input);
}

void ViewHistories::follow(TensorValue* base) {
    auto follow_one = [&](TensorValue* tensor) {
        if (tensor->meta == nullptr || tensor->meta->requires_grad) return;
        auto* meta = arena_.make<torch_room::TensorMeta>(*tensor->meta);
        meta->requires_grad = true;
        meta->is_leaf = false;
        tracer_.on_undo([tensor, before = tensor->meta] { tensor->meta = before; });
        tensor->meta = meta;
    };
    follow_one(base);
    for (TensorValue* view : views_)
        if (autograd_base(view) == base) follow_one(view);
}

void ViewHistories::note_history(const TensorValue* written) {
    auto* base = const_cast<TensorValue*>(autograd_base(written));
    follow(base);
    if (std::ranges::find(inputs_, base) == inputs_.end()) return;
    with_new_histories_.push_back(base);
    tracer_.on_undo([this] { with_new_histories_.pop_back(); });
    for (TensorValue* input : inputs_)
        if (input != base && !input->meta->requires_grad && share_base(base, input)) follow(input);
}

}  // namespace stator
