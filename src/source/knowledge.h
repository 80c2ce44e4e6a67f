/// Facts from earlier attempts to capture a code object: from cache misses, attempts that had to be repeated, and the
/// backend.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ref.h"
#include "base/shared.h"
#include "source/source.h"

namespace stator {

/// Sources are identified by their `path`, because the sources of a trace are freed with it.
struct Knowledge {
    /// Numbers that had another value in a later call, or on another rank: they become inputs of the graph.
    std::unordered_set<std::string> changing_numbers;
    /// Those of them that had another value for the same instance: an int of a module that only differs between
    /// instances stays a constant of each.
    std::unordered_set<std::string> changing_in_place;
    /// Numbers and sizes on whose symbols the backend failed: they stay constants, even if they change.
    std::unordered_set<std::string> backend_constants;
    /// Functions that break the graph and use no tensors: called uncompiled, not inlined. Kept alive.
    std::unordered_map<PyCodeObject*, Ref<PyCodeObject>> called_whole;
    /// Functions of PyTorch that break the graph because they communicate between processes. They and the modules that
    /// call them run uncompiled, and what these call is captured. Kept alive.
    std::unordered_map<PyCodeObject*, Ref<PyCodeObject>> communicating;

    /// Adds the facts of another one. Returns whether any of them was new.
    bool add(const Knowledge& other);
    /// A line for each fact, sorted.
    std::vector<std::string> print() const;
};

/// Knowledge with several owners: a capture keeps it alive, even if a reset detaches it.
struct SharedKnowledge : Counted {
    Knowledge known;
};

}  // namespace stator
