/// The end of a capture: removes unused nodes and gives names.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "base/python_error.h"
#include "base/text.h"
#include "graph/node.h"
#include "graph/unique_targets.h"

namespace stator::graph {

void Graph::finish() {
    if (is_finished_) return;
    STATOR_CHECK(!nodes_.empty() && nodes_.back()->kind == NodeKind::Output, "a graph ends with its output");
    unnamed_ = nodes_;
    order_placeholders();
    remove_unused();
    for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i]->index = static_cast<std::uint32_t>(i);
    is_finished_ = true;
}

void Graph::order_placeholders() {
    auto rest = std::stable_partition(nodes_.begin(), nodes_.end(),
                                      [](const Node* node) { return node->kind == NodeKind::Placeholder; });
    const bool has_symbols =
        std::any_of(nodes_.begin(), rest, [](const Node* node) { return node->symbols != nullptr; });
    if (!has_symbols) return;
    std::vector<Node*> ordered;
    std::unordered_set<Node*> placed;
    auto place = [&](Node* node) {
        if (placed.insert(node).second) ordered.push_back(node);
    };
    for (auto node = nodes_.begin(); node != rest; ++node) {
        if ((*node)->symbols != nullptr) std::ranges::for_each(*(*node)->symbols, place);
        place(*node);
    }
    std::ranges::copy(ordered, nodes_.begin());
}

namespace {

Ref<> text_of(const std::string& text) {
    return checked(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

/// Gives the inputs of a graph their targets. Returns the names that they want to have, by index; empty for one that
/// had a target.
std::vector<std::string> name_targets(const std::vector<Node*>& nodes, Arena& arena) {
    std::vector<std::string> names;
    UniqueTargets targets;
    PathNames paths;
    for (Node* node : nodes) {
        if (node->kind != NodeKind::Placeholder) break;
        names.emplace_back();
        if (node->target != nullptr) {
            targets.suffix(std::string(utf8(node->target)));
            continue;
        }
        paths.go_to(*node->path);
        const std::string suffix = targets.suffix(paths.target());
        node->target = arena.keep(text_of(paths.target() + suffix));
        names.back() = paths.name() + suffix;
    }
    return names;
}

}  // namespace

/// Removed nodes get names too: torch._dynamo names a node when it creates it, and users
/// compare graphs by name.
void Graph::ensure_names() const {
    if (unnamed_.empty()) return;
    const std::vector<Node*> nodes = std::move(unnamed_);
    unnamed_.clear();
    std::unordered_map<PyObject*, std::string> names_of_targets;
    const std::vector<std::string> names_of_inputs = name_targets(nodes_, arena_);
    PathNames paths;
    auto naming = namings_.begin();
    auto name_after_variables = [&](std::size_t size) {
        for (; naming != namings_.end() && naming->size <= size; ++naming) {
            Node* node = naming->node;
            if (naming->variable == node->name) continue;
            node->first_name = std::move(node->name);
            node->name = names_.create(naming->variable);
        }
    };
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        name_after_variables(i);
        std::string name;
        if (nodes[i]->target == nullptr) {
            paths.go_to(*nodes[i]->path);
            nodes[i]->target = arena_.keep(text_of(paths.target()));
            name = paths.name();
        } else if (const std::uint32_t at = nodes[i]->index; at < names_of_inputs.size() && nodes_[at] == nodes[i]) {
            name = names_of_inputs[at];
        }
        // Names of special methods are made differently.
        const bool is_plain = !name.empty() && !name.starts_with("__") && (name[0] < '0' || name[0] > '9');
        if (is_plain) {
            nodes[i]->name = names_.create_like(std::move(name));
            continue;
        }
        auto [found, is_new] = names_of_targets.try_emplace(nodes[i]->target);
        if (is_new) found->second = name_of_target(nodes[i]->target);
        nodes[i]->name = names_.create(found->second);
    }
    name_after_variables(nodes.size());
    namings_ = {};
}

namespace {

/// A number that is read from a tensor with one element. Reading it fails only if it does not fit into 64 bits, which
/// does not matter if nothing uses it.
bool is_unused_read(const Node& node) {
    return node.uses == 0 && node.kind == NodeKind::Method && node.may_fail && !node.has_effect &&
           node.result.kind == Result::Kind::Constant && node.result.expression != nullptr;
}

/// The program computes something, and uses nothing of it.
bool computes_in_vain(const std::vector<Node*>& nodes) {
    bool has_operations = false;
    for (const Node* node : nodes) {
        if (node->kind == NodeKind::Output) continue;
        if (node->has_effect || node->may_fail) return false;
        const bool is_call = node->kind == NodeKind::Function || node->kind == NodeKind::Method;
        has_operations |= is_call && node->result.kind != Result::Kind::None;
    }
    bool has_outputs = false;
    for_each_input(*nodes.back(), [&](Node*) { has_outputs = true; });
    return has_operations && !has_outputs;
}

}  // namespace

/// A graph of which nothing is used stays as it is: a backend sees it, and it is not run.
void Graph::remove_unused() {
    const bool keeps_operations = computes_in_vain(nodes_);
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
        const bool is_kept =
            keeps_operations && (*node)->result.kind != Result::Kind::None && (*node)->kind != NodeKind::Placeholder;
        if (is_kept || (*node)->uses > 0 || (*node)->has_effect || ((*node)->may_fail && !is_unused_read(**node))) {
            for (const std::vector<Node*>* needed : {(*node)->held, (*node)->symbols})
                if (needed != nullptr)
                    for (Node* one : *needed) ++one->uses;
            continue;
        }
        for_each_input(**node, [](Node* input) { --input->uses; });
        *node = nullptr;
    }
    std::erase(nodes_, nullptr);
}

}  // namespace stator::graph
