#include "graph/node.h"

#include <algorithm>

#include "base/check.h"

namespace stator::graph {

Argument Argument::of(Node* node) {
    Argument argument;
    argument.kind = Kind::Node;
    argument.node = node;
    return argument;
}

Argument Argument::of_constant(Borrowed<> constant) {
    Argument argument;
    argument.kind = Kind::Constant;
    argument.constant = constant;
    return argument;
}

Argument Argument::of_items(Kind kind, Items* items) {
    STATOR_DCHECK(kind != Kind::Node && kind != Kind::Constant, "a container argument needs a container kind");
    STATOR_DCHECK(kind != Kind::Dict || items->keys.size() == items->values.size(), "a dict has a key for each value");
    STATOR_DCHECK(kind != Kind::Slice || items->values.size() == 3, "a slice has start, stop and step");
    Argument argument;
    argument.kind = kind;
    argument.items = items;
    return argument;
}

const char* fx_word(NodeKind kind) {
    static constexpr const char* kWords[] = {
#define NODE_KIND(name, word) word,
#include "graph/node_kinds.def"
#undef NODE_KIND
    };
    return kWords[static_cast<int>(kind)];
}

namespace {

void keep_constants(Arena& arena, const Argument& argument) {
    if (argument.kind == Argument::Kind::Constant) {
        arena.keep(Ref<>::share(argument.constant));
    } else if (argument.kind != Argument::Kind::Node) {
        for (const Argument& item : argument.items->values) keep_constants(arena, item);
        for (PyObject* key : argument.items->keys) arena.keep(Ref<>::share(key));
    }
}

}  // namespace

Node* Graph::add(NodeKind kind, Borrowed<> target, std::vector<Argument> arguments,
                 std::vector<KeywordArgument> keywords) {
    STATOR_CHECK(!is_finished_, "a finished graph takes no more nodes");
    Node* node = arena_.make<Node>();
    node->kind = kind;
    node->index = node->serial = static_cast<std::uint32_t>(nodes_.size());
    if (target != nullptr) node->target = arena_.keep(Ref<>::share(target));
    node->arguments = std::move(arguments);
    node->keywords = std::move(keywords);
    node->has_effect = kind == NodeKind::Output;
    for_each_input(*node, [](Node* input) { ++input->uses; });
    for (const Argument& argument : node->arguments) keep_constants(arena_, argument);
    for (const KeywordArgument& keyword : node->keywords) {
        arena_.keep(Ref<>::share(keyword.name));
        keep_constants(arena_, keyword.value);
    }
    nodes_.push_back(node);
    return node;
}

namespace {

bool returns_its_argument(const Node& node, const Node* argument) {
    return node.result.same_as_argument >= 0 && !node.arguments.empty() &&
           node.arguments[0].kind == Argument::Kind::Node && node.arguments[0].node == argument;
}

}  // namespace

void Graph::name_after(Node* node, std::string_view variable) {
    // To torch._dynamo an operation that gives back its argument (`_set_tensor_requires_grad`) gives a tensor of its
    // own, which the program assigns.
    constexpr std::size_t kNear = 3;
    for (std::size_t i = nodes_.size(); !node->is_named && i-- > 0 && i + kNear > nodes_.size();)
        if (returns_its_argument(*nodes_[i], node)) return name_after(nodes_[i], variable);
    if (node->kind == NodeKind::Placeholder || node->is_named) return;
    node->is_named = true;
    namings_.push_back({node, std::string(variable), nodes_.size()});
}

void Graph::truncate(std::size_t size) {
    STATOR_CHECK(!is_finished_ && size <= nodes_.size(), "a graph can be truncated only to a smaller size");
    while (nodes_.size() > size) {
        for_each_input(*nodes_.back(), [](Node* input) { --input->uses; });
        nodes_.pop_back();
    }
    while (!namings_.empty() && namings_.back().size > size) {
        namings_.back().node->is_named = false;
        namings_.pop_back();
    }
}

std::vector<Node*> Graph::take(std::size_t size) {
    STATOR_CHECK(!is_finished_ && size <= nodes_.size(), "operations can be taken only from existing nodes");
    std::vector<Node*> taken, kept;
    for (std::size_t i = size; i < nodes_.size(); ++i) {
        bool stays = nodes_[i]->kind == NodeKind::Placeholder || nodes_[i]->kind == NodeKind::Attribute;
        (stays ? kept : taken).push_back(nodes_[i]);
    }
    for (Node* node : taken) for_each_input(*node, [](Node* input) { --input->uses; });
    nodes_.resize(size);
    for (Node* node : kept) {
        node->index = node->serial = static_cast<std::uint32_t>(nodes_.size());
        nodes_.push_back(node);
    }
    std::erase_if(namings_, [&](const Naming& naming) { return std::ranges::find(taken, naming.node) != taken.end(); });
    for (Naming& naming : namings_) naming.size = std::min(naming.size, nodes_.size());
    return taken;
}

}  // namespace stator::graph
