/// `Node.meta` of `torch.fx`, filled when it is read. A dict subclass that behaves as the full dict: its
/// keys are inserted at the first access, and an expensive entry is created when its value is first read.
#pragma once

#include "base/ref.h"
#include "graph/node.h"

namespace stator::graph {

/// A new one for a node of a captured graph. Throws `PythonError`.
Ref<> make_lazy_meta(Borrowed<> captured, const Node& node);
/// Readies the type and adds it to the module.
bool add_lazy_meta_type(PyObject* module);

}  // namespace stator::graph
