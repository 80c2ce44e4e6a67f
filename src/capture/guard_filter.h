/// `options={"guard_filter_fn": ...}` of `torch.compile`: the program decides which guards are checked.
#pragma once

#include <optional>
#include <vector>

#include "capture/options.h"
#include "trace/trace.h"

namespace stator {

/// What a filter left.
struct KeptGuards {
    std::optional<std::vector<Guard>> guards;  // none: all, because there is no filter
    bool has_state = true;                     // modes of PyTorch are checked
    bool has_conditions = true;  // relations between numbers are checked, and those that the backend needs
};

/// The guards of a trace that `options.guard_filter` keeps. The filter sees them as entries of torch
/// (python/stator/guard_filters.py). Guards without which a call could read memory of another kind stay: the classes of
/// what the graph and the plan receive. Throws PythonError.
KeptGuards filter_guards(const CompileOptions& options, const Trace& trace);

}  // namespace stator
