/// Agreement between the ranks of a process group on what they compile. See `stator.collectives`.
#pragma once

#include <optional>

#include "capture/graph_module.h"
#include "capture/report.h"

namespace stator {

/// Exchanges what was captured with the other ranks. `Again` if numbers differ that can be inputs of the graph. Throws
/// PythonError for any other difference.
std::optional<Again> agree_between_ranks(const GraphModule& module, const Trace& trace, const Knowledge& knowledge,
                                         const CaptureReport& report);

}  // namespace stator
