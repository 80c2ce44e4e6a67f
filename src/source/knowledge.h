/// What earlier attempts to capture a code object have taught: misses of its entries, attempts that had to start again,
/// and what its backend made of the graph.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ref.h"
#include "base/shared.h"
#include "source/source.h"

namespace stator {

/// Places are named by `path`, because the sources of one trace do not live until the next.
struct Knowledge {
    /// Numbers that had another value in a later call, or on another rank: inputs of the graph, not constants.
    std::unordered_set<std::string> changing_numbers;
    /// Numbers that the backend compiled in as constants although they were inputs: constants, whatever they do.
    std::unordered_set<std::string> backend_constants;
    /// Functions that break the graph and work on no tensors: called as a whole, not inlined. Kept alive.
    std::unordered_map<PyCodeObject*, Ref<PyCodeObject>> called_whole;

    bool is_variable(const Source& source) const {
        if (changing_numbers.empty() && !source.varies) return false;
        std::string place = path(source);
        return (source.varies || changing_numbers.contains(place)) && !backend_constants.contains(place);
    }

    /// Takes over what another has learned. Whether anything of it was new.
    bool add(const Knowledge& other);
    /// A line for each fact, sorted.
    std::vector<std::string> print() const;
};

/// Knowledge with several owners: whoever captures keeps it, also when a reset has taken it out of reach.
struct SharedKnowledge : Counted {
    Knowledge known;
};

}  // namespace stator
