/// Which numbers from outside are taken for variables and not for constants.
#pragma once

#include <string>
#include <unordered_set>

#include "source/source.h"

namespace stator {

/// Kept by the entries of one compiled callable, for all its traces. Places are named by `path`: they have to be found
/// again in other traces.
struct DynamicSources {
    /// An entry was missed because the number there had another value.
    std::unordered_set<std::string> changing;
    /// What was compiled holds for one value only.
    std::unordered_set<std::string> fixed;

    bool contains(const Source& source) const {
        if (changing.empty() && !source.varies) return false;
        std::string place = path(source);
        return (source.varies || changing.contains(place)) && !fixed.contains(place);
    }
};

}  // namespace stator
