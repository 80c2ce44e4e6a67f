#include "trace/recorder/copier.h"

#include "base/check.h"
#include "base/python_error.h"

namespace stator {

using graph::Argument;
using graph::Node;
using graph::NodeKind;

GraphFlags flags_of(const Node& node) {
    return {node.has_effect, node.is_random, node.may_fail, node.is_visible_to_program, node.is_lasting};
}

Node* Copier::add_input(const Node* original, Borrowed<> name) {
    Node* node = to_.add(NodeKind::Placeholder, name, {});
    node->has_effect = true;  // it stays an input, used or not
    ++inputs_;
    if (with_metadata_) node->result = original->result;
    return copies_[original] = node;
}

Node* Copier::add_input(const Node* original) {
    return add_input(original, checked(PyUnicode_FromFormat("input_%zu", inputs_)).get());
}

Node* Copier::add(const Node& original) {
    std::vector<Argument> arguments;
    for (const Argument& argument : original.arguments) arguments.push_back(copy(argument));
    std::vector<graph::KeywordArgument> keywords;
    for (const graph::KeywordArgument& keyword : original.keywords)
        keywords.push_back({keyword.name, copy(keyword.value)});
    Node* node = to_.add(original.kind, original.target, std::move(arguments), std::move(keywords));
    node->has_effect = original.has_effect;
    node->may_fail = original.may_fail;
    if (with_metadata_) {
        node->result = original.result;
        node->location = original.location;
        node->modules = original.modules;
        node->extra_meta = original.extra_meta;
    }
    return copies_[&original] = node;
}

Node* Copier::of(const Node* original) const {
    auto found = copies_.find(original);
    STATOR_CHECK(found != copies_.end(), "a graph of its own reads a node that is neither in it nor an input of it");
    return found->second;
}

Argument Copier::copy(const Argument& argument) {
    if (argument.kind == Argument::Kind::Node) return Argument::of(of(argument.node));
    if (argument.kind == Argument::Kind::Constant) return argument;
    auto* items = to_.arena().make<Argument::Items>();
    for (const Argument& item : argument.items->values) items->values.push_back(copy(item));
    items->keys = argument.items->keys;
    items->type = argument.items->type;
    return Argument::of_items(argument.kind, items);
}

}  // namespace stator
