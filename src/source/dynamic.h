/// Which numbers from outside are variables of the graph instead of constants.
#pragma once

#include <string>
#include <unordered_set>

#include "source/source.h"

namespace stator {

/// Kept for one compiled callable, for all its traces. Sources are named by `path`, because they have to be found
/// again in other traces.
struct DynamicSources {
    /// An entry did not match because the number there had changed.
    std::unordered_set<std::string> changing;
    /// The backend specialized on the number.
    std::unordered_set<std::string> fixed;

    bool contains(const Source& source) const {
        if (changing.empty() && !source.varies) return false;
        std::string place = path(source);
        return (source.varies || changing.contains(place)) && !fixed.contains(place);
    }
};

}  // namespace stator
