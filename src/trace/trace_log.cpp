#include "trace/trace_log.h"

#include <algorithm>

namespace stator {

void TraceLog::note_nodes(const graph::Graph& graph) {
    const auto& nodes = graph.nodes();
    // A graph break has removed some.
    noted_nodes_ = std::min(noted_nodes_, nodes.size());
    for (; noted_nodes_ < nodes.size(); ++noted_nodes_) {
        const graph::Node* node = nodes[noted_nodes_];
        if (node->kind != graph::NodeKind::Function && node->kind != graph::NodeKind::Method) continue;
        unnamed_.emplace_back(events_.size(), node);
        events_.push_back({Event::Kind::Node, {}, 0, 0, {}, {}, 0});
    }
}

void TraceLog::note_guards(std::span<const Guard> guards) {
    // A graph break has removed some.
    for (; noted_guards_.size() > guards.size(); noted_guards_.pop_back()) undo(noted_guards_.back());
    while (noted_guards_.size() < guards.size()) {
        noted_guards_.push_back(events_.size());
        events_.push_back({Event::Kind::Guard, {}, 0, 0, {}, {}, 0});
    }
}

std::size_t TraceLog::note_effect(std::string source, std::string type, int made_object) {
    events_.push_back({Event::Kind::Effect, {}, 0, 0, std::move(source), std::move(type), made_object});
    return events_.size() - 1;
}

void TraceLog::name_nodes(const graph::Graph& graph) {
    graph.ensure_names();
    for (const auto& [position, node] : unnamed_) {
        const bool is_in_graph = std::ranges::find(graph.nodes(), node) != graph.nodes().end();
        if (is_in_graph)
            events_[position].name = node->first_name.empty() ? node->name : node->first_name;
        else
            undo(position);
    }
    unnamed_.clear();
}

void TraceLog::name_guards(std::span<const Guard> guards) {
    note_guards(guards);
    for (std::size_t i = 0; i < guards.size(); ++i) events_[noted_guards_[i]].name = print(guards[i]);
}

}  // namespace stator
