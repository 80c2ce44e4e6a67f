/// Creates a `torch.fx.Graph` with real `torch.fx.Node`s from a captured graph, without running Python for each.
#pragma once

#include "base/ref.h"

namespace stator::graph {

enum class FxRoute {
    Fastest,   // fields filled in directly where the layout of `torch.fx.Node` is known
    Ordinary,  // `torch.fx.Graph.create_node` for each node
};

/// A new `torch.fx.Graph` for a captured graph (graph/captured.h), owned by `owning_module` (may be None). The meta of
/// its nodes is lazy. Throws `PythonError`.
Ref<> make_fx_graph(Borrowed<> captured, Borrowed<> owning_module, FxRoute route = FxRoute::Fastest);

}  // namespace stator::graph
