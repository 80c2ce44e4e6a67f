#include "trace/recorder/rows.h"

#include "base/names.h"
#include "base/python_error.h"
#include "value/torch_modes.h"

namespace stator {

void Rows::note(TensorValue* base, const std::vector<Value*>& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        auto* row = static_cast<TensorValue*>(rows[i]);
        row->is_row = true;
        const graph::Node* first = static_cast<TensorValue*>(rows[0])->node;
        bool with_grad = tracer_.modes().current().grad;
        rows_.emplace(row->node, Row{base->node, first, i, with_grad, base->meta->requires_grad});
        tracer_.on_undo([this, node = row->node] { rows_.erase(node); });
    }
}

graph::Node* Rows::base_of_row(const graph::Node* node) const {
    auto row = rows_.find(node);
    return row == rows_.end() ? nullptr : row->second.base;
}

graph::Node* Rows::as_output(graph::Node* node, bool is_return) {
    auto found = rows_.find(node);
    if (found == rows_.end()) return node;
    const Row& row = found->second;
    bool is_other_mode = row.with_grad != tracer_.modes().at_entry().grad;
    if (!row.needs_gradient && (is_return || is_other_mode)) return node;
    if (is_other_mode)
        throw Break{BreakKind::Rebuild,
                    "a tensor obtained by iterating over another tensor in a different grad mode is still used after "
                    "the captured region",
                    false};
    PyObject* index = graph_.arena().keep(checked(PyLong_FromSize_t(row.index)));
    graph::Node* part = graph_.add(graph::NodeKind::Function, node->target,
                                   {graph::Argument::of(unbound(row, node)), graph::Argument::of_constant(index)});
    part->result = node->result;
    part->location = node->location;
    part->modules = node->modules;
    return part;
}

graph::Result Rows::result_of_unbind(const graph::Node* first) const {
    graph::Result result;
    result.kind = graph::Result::Kind::Tuple;
    for (const auto& [node, row] : rows_) {
        if (row.first != first) continue;
        if (result.items.size() <= row.index) result.items.resize(row.index + 1);
        result.items[row.index] = node->result;
    }
    return result;
}

graph::Node* Rows::unbound(const Row& row, const graph::Node* node) {
    graph::Node*& unbound = unbound_[row.first];
    if (unbound == nullptr) {
        unbound = graph_.add(graph::NodeKind::Method, interned("unbind"), {graph::Argument::of(row.base)});
        unbound->location = node->location;
        unbound->modules = node->modules;
        unbound->result = result_of_unbind(row.first);
    }
    return unbound;
}

}  // namespace stator
