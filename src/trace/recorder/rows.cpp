#include "trace/recorder/rows.h"

#include "base/names.h"
#include "base/python_error.h"
#include "torch/dtypes.h"
#include "value/torch_modes.h"

namespace stator {

graph::Node* Rows::begin(const TensorValue* base) {
    if (base->meta->sizes[0].value() == 0) return nullptr;
    // Without a result it counts for nothing.
    return graph_.add(graph::NodeKind::Method, interned("unbind"), {graph::Argument::of(base->node)});
}

void Rows::note(TensorValue* base, graph::Node* unbind, const std::vector<Value*>& rows) {
    auto group = std::make_shared<Group>(Group{base, base->node, unbind});
    group->with_grad = tracer_.modes().current().grad;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        auto* row = static_cast<TensorValue*>(rows[i]);
        row->is_row = true;
        group->rows.push_back(row->node);
        rows_.insert_or_assign(row->node, Row{group, i});
        tracer_.on_undo([this, node = row->node] { rows_.erase(node); });
    }
}

void Rows::note_part(const graph::Node* of, const graph::Node* part) {
    auto found = rows_.find(of);
    if (found == rows_.end()) return;
    std::shared_ptr<Group> group = found->second.group;
    rows_.insert_or_assign(part, Row{std::move(group), kPart});
    tracer_.on_undo([this, part] { rows_.erase(part); });
}

graph::Node* Rows::base_of_row(const graph::Node* node) const {
    auto row = rows_.find(node);
    return row == rows_.end() ? nullptr : row->second.group->base_node;
}

graph::Node* Rows::as_output(graph::Node* node, bool is_return, const AutogradViews& views) {
    auto found = rows_.find(node);
    if (found == rows_.end()) return node;
    const Row& row = found->second;
    Group& group = *row.group;
    if (group.is_unbound) return node;
    const bool is_other_mode = group.with_grad != tracer_.modes().at_entry().grad;
    // A row that needs no gradient may get a history later on. Made without gradients it is like any other view.
    const bool may_need_gradient = group.with_grad && torch_room::can_have_grad(group.base->meta->dtype);
    const bool is_plain = row.index != kPart && !is_other_mode && !views.is_outdated(node);
    if (!group.base->meta->requires_grad && (is_return || !is_plain) && !may_need_gradient) return node;
    if (is_plain) return item_at_end(row, node);
    if (group.unbind == nullptr)
        throw Break{BreakKind::Rebuild,
                    "a tensor obtained by iterating over another tensor in a different grad mode is still used after "
                    "the captured region",
                    false};
    unbind(row.group);
    return node;
}

void Rows::set_source(Group& group, graph::Node* from, graph::Node* to) {
    for (graph::Node* row : group.rows) {
        --from->uses;
        ++to->uses;
        row->arguments[0] = graph::Argument::of(to);
    }
}

void Rows::unbind(const std::shared_ptr<Group>& group) {
    group->is_unbound = true;
    group->unbind->result = result_of_unbind(*group);
    set_source(*group, group->base_node, group->unbind);
    tracer_.on_undo([group] {
        group->is_unbound = false;
        group->unbind->result = {};
        set_source(*group, group->unbind, group->base_node);
    });
}

graph::Result Rows::result_of_unbind(const Group& group) {
    graph::Result result;
    result.kind = graph::Result::Kind::Tuple;
    for (const graph::Node* row : group.rows) result.items.push_back(row->result);
    return result;
}

graph::Node* Rows::item_at_end(const Row& row, const graph::Node* node) {
    Group& group = *row.group;
    if (group.last == nullptr) {
        group.last = graph_.add(graph::NodeKind::Method, interned("unbind"), {graph::Argument::of(group.base_node)});
        group.last->location = node->location;
        group.last->modules = node->modules;
        group.last->result = result_of_unbind(group);
        tracer_.on_undo([kept = row.group] { kept->last = nullptr; });
    }
    PyObject* index = graph_.arena().keep(checked(PyLong_FromSize_t(row.index)));
    graph::Node* part = graph_.add(graph::NodeKind::Function, node->target,
                                   {graph::Argument::of(group.last), graph::Argument::of_constant(index)});
    part->result = node->result;
    part->location = node->location;
    part->modules = node->modules;
    return part;
}

}  // namespace stator
