#include "trace/recorder/autograd_views.h"

#include <algorithm>

#include "base/imported.h"
#include "torch/tensor.h"
#include "value/torch_modes.h"

namespace stator {

namespace {

bool is_detach_in_place(graph::NodeKind kind, Borrowed<> target) {
    static PyObject* const function = imported("torch", "detach_");
    if (kind != graph::NodeKind::Method) return target.get() == function;
    return PyUnicode_Check(target.get()) && PyUnicode_CompareWithASCIIString(target.get(), "detach_") == 0;
}

}  // namespace

void AutogradViews::note_view(const TensorValue* view, const TensorValue* base) {
    if (view->is_detached) return;
    auto found = views_.find(base->node);
    const bool is_of_other = found != views_.end();
    if (!view->refuses_writes && !is_of_other) return;
    add(view, base, !tracer_.modes().current().grad || (is_of_other && found->second.without_grad));
}

void AutogradViews::add(const TensorValue* view, const TensorValue* base, bool without_grad) {
    views_.insert_or_assign(view->node, View{recorder_.graph().size(), without_grad, base});
    tracer_.on_undo([this, node = view->node] { views_.erase(node); });
}

void AutogradViews::note_same_view(const graph::Node* before, const graph::Node* after) {
    auto found = views_.find(before);
    if (found == views_.end()) return;
    const View view = found->second;
    views_.insert_or_assign(after, view);
    tracer_.on_undo([this, after] { views_.erase(after); });
}

void AutogradViews::note_write(const TensorValue* written) {
    if (views_.empty()) return;
    const graph::Node* memory = memory_of(written->node);
    auto found = last_writes_.find(memory);
    const std::size_t before = found == last_writes_.end() ? 0 : found->second;
    last_writes_.insert_or_assign(memory, recorder_.graph().size());
    tracer_.on_undo([this, memory, before] { last_writes_.insert_or_assign(memory, before); });
}

bool AutogradViews::is_outdated(const graph::Node* node) const {
    auto view = views_.find(node);
    if (view == views_.end()) return false;
    auto write = last_writes_.find(memory_of(node));
    return write != last_writes_.end() && write->second > view->second.made;
}

bool AutogradViews::is_refused(const TensorValue* tensor) const {
    if (!is_outdated(tensor->node)) return false;
    for (const TensorValue* one = tensor; one != nullptr && !one->is_detached; one = one->view_of)
        if (one->meta->requires_grad) return true;
    return false;
}

bool AutogradViews::is_refused_outside(const TensorValue* tensor) const {
    for (const TensorValue* one = tensor; one != nullptr; one = one->view_of)
        if (one->outside != nullptr && torch_room::read_autograd_state(one->outside).is_loose_view) return true;
    return false;
}

void AutogradViews::expect_history(const TensorValue* tensor) {
    const bool is_written = !last_writes_.empty() && is_refused(tensor);
    if (is_written || (!writes_.inputs().empty() && is_refused_outside(tensor)))
        tracer_.break_graph(BreakKind::OperationFails,
                            "a view is used that autograd no longer tracks, because its memory was written to");
}

void AutogradViews::check_arguments(std::span<TensorValue* const> arguments) {
    if ((last_writes_.empty() && writes_.inputs().empty()) || !tracer_.modes().current().grad) return;
    if (std::ranges::none_of(arguments, [](const TensorValue* one) { return one->meta->requires_grad; })) return;
    for (const TensorValue* tensor : arguments) expect_history(tensor);
}

void AutogradViews::check_outputs(const graph::Argument::Items& outputs) {
    if (!is_compiled()) return;
    for (const graph::Argument& output : outputs.values) {
        auto view = views_.find(output.node);
        if (view == views_.end() || !view->second.base->meta->requires_grad) continue;
        if ((view->second.without_grad && tracer_.modes().at_entry().grad) || is_outdated(output.node))
            recorder_.keep_as_captured();
    }
}

void AutogradViews::check_refused_write(const TensorValue* written) {
    for (; is_compiled() && written != nullptr; written = written->view_of)
        if (written->refuses_writes) recorder_.keep_as_captured();
}

void AutogradViews::expect_no_detached_view(graph::NodeKind kind, Borrowed<> target,
                                            std::span<TensorValue* const> arguments) {
    if (arguments.empty() || arguments[0]->view_of == nullptr || !is_detach_in_place(kind, target)) return;
    if (is_compiled()) recorder_.keep_as_captured();
    tracer_.break_graph(BreakKind::OperationFails, "detach_ of a view, which PyTorch does not allow");
}

}  // namespace stator
