/// Views to which autograd lets nothing be written: one of several (of `split`, `unbind`, ...), or made while nothing
/// was recorded. A compiler gives back another tensor in place of such a view, which autograd does not refuse, or whose
/// gradient reaches what the view was taken of. Where the program would see that, the graph runs as it was captured.
#include <algorithm>

#include "trace/interpreter.h"
#include "value/tensor/tensor.h"

namespace stator {

void Interpreter::note_autograd_view(const TensorValue* view, const TensorValue* base) {
    if (run_by_ != RunBy::Compiler) return;
    auto found = autograd_views_.find(base->node);
    bool is_of_other = found != autograd_views_.end();
    if (!view->refuses_writes && !is_of_other) return;
    bool without_grad = !modes_.grad || (is_of_other && found->second.without_grad);
    autograd_views_.insert_or_assign(view->node, AutogradView{graph_->size(), without_grad, base->meta->requires_grad});
    on_undo([this, node = view->node] { autograd_views_.erase(node); });
}

void Interpreter::note_same_view(const graph::Node* before, const graph::Node* after) {
    auto found = autograd_views_.find(before);
    if (found == autograd_views_.end()) return;
    AutogradView view = found->second;
    autograd_views_.insert_or_assign(after, view);
    on_undo([this, after] { autograd_views_.erase(after); });
}

void Interpreter::note_write_to_views(const TensorValue* written) {
    if (run_by_ != RunBy::Compiler || autograd_views_.empty()) return;
    const graph::Node* memory = memory_of(written->node);
    auto found = last_writes_.find(memory);
    std::size_t before = found == last_writes_.end() ? 0 : found->second;
    last_writes_.insert_or_assign(memory, graph_->size());
    on_undo([this, memory, before] { last_writes_.insert_or_assign(memory, before); });
}

bool Interpreter::is_refused_view(const graph::Node* node) const {
    auto view = autograd_views_.find(node);
    if (view == autograd_views_.end()) return false;
    auto write = last_writes_.find(memory_of(node));
    return write != last_writes_.end() && write->second > view->second.made;
}

void Interpreter::keep_refused_views(std::span<TensorValue* const> arguments) {
    if (!modes_.grad || last_writes_.empty()) return;
    auto is_refused = [this](const TensorValue* tensor) {
        return tensor->meta->requires_grad && is_refused_view(tensor->node);
    };
    if (std::ranges::any_of(arguments, is_refused)) keep_as_captured();
}

void Interpreter::keep_views_among_outputs(const graph::Argument::Items& outputs) {
    for (const graph::Argument& output : outputs.values) {
        auto view = autograd_views_.find(output.node);
        if (view == autograd_views_.end() || !view->second.needs_gradient) continue;
        if ((view->second.without_grad && entry_modes_.grad) || is_refused_view(output.node)) keep_as_captured();
    }
}

void Interpreter::keep_view_for_write(const TensorValue* written) {
    for (; run_by_ == RunBy::Compiler && written != nullptr; written = written->view_of)
        if (written->refuses_writes) keep_as_captured();
}

}  // namespace stator
