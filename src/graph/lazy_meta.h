/// `Node.meta` of `torch.fx`, filled when it is read. A dict subclass that no reader can tell from a full dict: its
/// keys appear at the first touch, an entry that costs something to make is made when its value is first read.
#pragma once

#include "base/ref.h"
#include "graph/node.h"

namespace stator::graph {

/// A new, untouched one for a node of a captured graph. Throws `PythonError`.
Ref<> make_lazy_meta(Borrowed<> captured, const Node& node);
/// Readies the type and adds it to the module.
bool add_lazy_meta_type(PyObject* module);

}  // namespace stator::graph
