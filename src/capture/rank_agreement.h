/// Ranks of a process group agree on what they compile. See `stator.collectives`.
#pragma once

#include <optional>

#include "capture/graph_module.h"
#include "capture/report.h"

namespace stator {

/// Tells the other ranks what was captured. `Again` where numbers differ between them that can be inputs of the graph.
/// Throws PythonError where they differ otherwise.
std::optional<Again> agree_between_ranks(const GraphModule& module, const Trace& trace, const Knowledge& knowledge,
                                         const CaptureReport& report);

}  // namespace stator
