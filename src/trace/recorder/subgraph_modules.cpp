#include "trace/recorder/subgraph_modules.h"

#include <algorithm>
#include <numeric>

#include "base/names.h"
#include "base/python_error.h"
#include "trace/recorder/copier.h"

namespace stator {

namespace {

using graph::Argument;
using graph::Node;
using Copies = std::unordered_map<const Node*, Node*>;

constexpr const char* kCapsule = "stator.subgraph";

Ref<> text_of(const std::string& text) {
    return checked(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

/// The nodes that give the subgraphs of a graph.
struct Pending {
    Node* node;
    PendingSubgraph* subgraph;
};

/// The node of this graph for a node of the trace.
const Node* resolved(const Copies* copies, const Node* node) {
    return copies == nullptr ? node : copies->at(node);
}

template <class T>
void permute(std::vector<T>& items, std::size_t first, const std::vector<std::size_t>& order) {
    const std::vector<T> before(items.begin() + static_cast<std::ptrdiff_t>(first),
                                items.begin() + static_cast<std::ptrdiff_t>(first + order.size()));
    for (std::size_t i = 0; i < order.size(); ++i) items[first + i] = before[order[i]];
}

/// Sorts the operands of an operation by their names, group by group.
void sort_operands(const Node& operation, std::span<const Pending> given, const Copies* copies) {
    const std::vector<std::size_t>& groups = given[0].subgraph->module.sorted;
    const std::vector<Node*> operands = given[0].subgraph->module.operands;
    Argument::Items& last = *operation.arguments.back().items;
    std::size_t first = 0;
    for (std::size_t count : groups) {
        std::vector<std::size_t> order(count);
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::stable_sort(order, {}, [&](std::size_t at) -> const std::string& {
            return resolved(copies, operands[first + at])->name;
        });
        permute(last.values, last.values.size() - operands.size() + first, order);
        for (const Pending& one : given) {
            permute(one.subgraph->module.operands, first, order);
            permute(one.subgraph->module.suffixes, first, order);
        }
        first += count;
    }
}

std::unique_ptr<graph::Graph> build(const PendingSubgraph& pending, const Copies* around, Copies& copies) {
    const Subgraph& subgraph = pending.subgraph;
    const SubgraphModule& module = pending.module;
    auto made = std::make_unique<graph::Graph>();
    Copier copier(*made, /*with_metadata=*/true);
    for (std::size_t i = 0; i < subgraph.inputs.size(); ++i) {
        const std::string name = i < module.input_names.size() ? module.input_names[i]
                                 : i == 0                      ? "child"
                                                               : "child_" + std::to_string(i);
        copies[subgraph.inputs[i]] = copier.add_input(subgraph.inputs[i], text_of(name).get());
    }
    for (std::size_t i = 0; i < module.operands.size(); ++i) {
        const std::string suffix = module.suffixes.empty() ? "" : module.suffixes[i];
        const Node* operand = module.operands[i];
        copies[operand] = copier.add_input(operand, text_of(resolved(around, operand)->name + suffix).get());
    }
    for (std::size_t i = 0; i < subgraph.nodes.size(); ++i) {
        Node* copy = copies[subgraph.nodes[i]] = copier.add(*subgraph.nodes[i]);
        if (!subgraph.variables[i].empty()) made->name_after(copy, subgraph.variables[i]);
    }
    auto* items = made->arena().make<Argument::Items>();
    for (const Argument& output : subgraph.outputs) items->values.push_back(copier.copy(output));
    const Argument output = module.returns_one ? items->values.at(0) : Argument::of_items(module.output_kind, items);
    made->add(graph::NodeKind::Output, interned("output"), {output});
    made->finish();
    return made;
}

}  // namespace

Ref<> make_pending(PendingSubgraph pending) {
    auto owned = std::make_unique<PendingSubgraph>(std::move(pending));
    Ref<> capsule = checked(PyCapsule_New(owned.get(), kCapsule, [](PyObject* self) {
        delete static_cast<PendingSubgraph*>(PyCapsule_GetPointer(self, kCapsule));
    }));
    // (By which the graph names and prints it.)
    if (PyCapsule_SetContext(capsule.get(), owned->attribute.data()) != 0) throw PythonError();
    (void)owned.release();
    return capsule;
}

PendingSubgraph* pending_of(PyObject* target) {
    if (target == nullptr || !PyCapsule_IsValid(target, kCapsule)) return nullptr;
    return static_cast<PendingSubgraph*>(PyCapsule_GetPointer(target, kCapsule));
}

PendingSubgraph* pending_of(const Node* node) {
    return pending_of(node->target);
}

namespace {

/// Compares the nodes of two subgraphs one by one.
class SameNodes {
  public:
    bool pair(std::span<Node* const> left, std::span<Node* const> right) {
        if (left.size() != right.size()) return false;
        for (std::size_t i = 0; i < left.size(); ++i) {
            if (!same(left[i]->result, right[i]->result)) return false;
            pairs_.emplace(left[i], right[i]);
        }
        return true;
    }
    bool same(const Node& left, const Node& right) {
        if (left.kind != right.kind || left.target != right.target || !same(left.arguments, right.arguments) ||
            left.keywords.size() != right.keywords.size() || !same(left.result, right.result))
            return false;
        for (std::size_t i = 0; i < left.keywords.size(); ++i)
            if (left.keywords[i].name != right.keywords[i].name ||
                !same(left.keywords[i].value, right.keywords[i].value))
                return false;
        return pairs_.emplace(&left, &right).second;
    }
    bool same(const std::vector<Argument>& left, const std::vector<Argument>& right) {
        return std::ranges::equal(left, right,
                                  [&](const Argument& one, const Argument& other) { return same(one, other); });
    }

  private:
    bool same(const Argument& left, const Argument& right) {
        if (left.kind != right.kind) return false;
        if (left.kind == Argument::Kind::Node) {
            auto found = pairs_.find(left.node);
            return found != pairs_.end() && found->second == right.node;
        }
        if (left.kind == Argument::Kind::Constant) return same_constant(left.constant, right.constant);
        return left.items->type == right.items->type && same(left.items->values, right.items->values) &&
               std::ranges::equal(left.items->keys, right.items->keys, same_constant);
    }
    /// Numbers and strings by value, everything else by identity.
    static bool same_constant(PyObject* left, PyObject* right) {
        if (left == right) return true;
        const bool is_plain = PyLong_CheckExact(left) || PyFloat_CheckExact(left) || PyUnicode_CheckExact(left);
        if (!is_plain || Py_TYPE(left) != Py_TYPE(right)) return false;
        return PyObject_RichCompareBool(left, right, Py_EQ) == 1;
    }
    static bool same(const graph::Result& left, const graph::Result& right) {
        if (left.kind != right.kind || left.expression != right.expression) return false;
        if (left.kind == graph::Result::Kind::Tensor && !(*left.tensor == *right.tensor)) return false;
        return std::ranges::equal(left.items, right.items, [](const graph::Result& one, const graph::Result& other) {
            return same(one, other);
        });
    }

    std::unordered_map<const Node*, const Node*> pairs_;
};

}  // namespace

bool are_equal(const Subgraph& left, const Subgraph& right) {
    SameNodes nodes;
    if (!nodes.pair(left.inputs, right.inputs) || !nodes.pair(left.lifted, right.lifted)) return false;
    if (left.nodes.size() != right.nodes.size()) return false;
    for (std::size_t i = 0; i < left.nodes.size(); ++i)
        if (!nodes.same(*left.nodes[i], *right.nodes[i])) return false;
    return nodes.same(left.outputs, right.outputs);
}

std::vector<BuiltSubgraph> build_subgraphs(graph::Graph& graph, const Copies* copies) {
    std::unordered_map<const Node*, PendingSubgraph*> pending;
    std::vector<Pending> in_order;
    for (Node* node : graph.nodes()) {
        PendingSubgraph* found = pending_of(node);
        if (found == nullptr) continue;
        pending.emplace(node, found);
        in_order.push_back({node, found});
        node->kind = graph::NodeKind::Attribute;
        node->target = graph.arena().keep(text_of(found->attribute));
    }
    std::vector<BuiltSubgraph> built;
    if (in_order.empty()) return built;
    graph.ensure_names();
    std::unordered_map<const PendingSubgraph*, const Node*> operations;
    for (const Node* node : graph.nodes()) {
        std::vector<Pending> given;
        graph::for_each_input(*node, [&](Node* input) {
            if (auto found = pending.find(input); found != pending.end()) given.push_back({input, found->second});
        });
        for (const Pending& one : given) operations.emplace(one.subgraph, node);
        if (!given.empty() && !given[0].subgraph->module.sorted.empty()) sort_operands(*node, given, copies);
    }
    for (const Pending& one : in_order) {
        auto is_same = [&](const BuiltSubgraph& other) { return other.attribute == one.subgraph->attribute; };
        if (std::ranges::any_of(built, is_same)) continue;
        BuiltSubgraph& made = built.emplace_back();
        made.attribute = one.subgraph->attribute;
        made.operation = operations.at(one.subgraph);
        made.graph = build(*one.subgraph, copies, made.copies);
    }
    return built;
}

}  // namespace stator
