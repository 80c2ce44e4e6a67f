/// Arguments of nodes as `torch.fx` keeps them: tuples, immutable lists and dicts, slices, nodes and constants.
#pragma once

#include <span>

#include "base/ref.h"
#include "graph/node.h"

namespace stator::graph {

/// Turns arguments into what `torch.fx.Node.args` and `.kwargs` would hold. Throws `PythonError`.
class FxArguments {
  public:
    FxArguments();

    /// `nodes[i]` is the `torch.fx.Node` of the node with index i.
    Ref<> positional(const Node& node, std::span<PyObject* const> nodes) const;
    Ref<> keywords(const Node& node, std::span<PyObject* const> nodes) const;

  private:
    Ref<> convert(const Argument& argument, std::span<PyObject* const> nodes) const;
    Ref<> convert_items(const Argument& argument, std::span<PyObject* const> nodes) const;
    /// A constant as `torch.fx` would store it: its lists and dicts become immutable ones.
    Ref<> freeze(Borrowed<> constant) const;

    Ref<> immutable_list_;
    Ref<> immutable_dict_;
    Ref<> no_keywords_;  // shared between the nodes: immutable
};

}  // namespace stator::graph
