/// The offsets of the fields of `torch.fx.Node`. In the supported releases its base class is a C struct whose fields
/// are member descriptors, so the offsets can be read from the class itself. Another release has
/// no layout here, and graphs are built through the methods of `torch.fx` instead.
#pragma once

#include <optional>

#include "base/ref.h"

namespace stator::graph {

struct NodeLayout {
    PyTypeObject* node_type;
    Py_ssize_t previous, next, graph, name, op, target, type, input_nodes, args, kwargs, users, repr_fn, meta;
    /// The getset descriptor of `_sort_key`, a tuple of integers that orders the nodes.
    PyObject* sort_key;
};

/// The layout of the installed `torch.fx.Node`, or none. Read once.
const std::optional<NodeLayout>& node_layout();

/// A field of a node.
inline PyObject*& field(PyObject* node, Py_ssize_t offset) {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(node) + offset);
}

}  // namespace stator::graph
