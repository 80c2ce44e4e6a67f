/// What objects made in the trace hold, so that changes of them can be told: those of objects from outside are effects.
#pragma once

#include <optional>
#include <vector>

#include "value/value.h"

namespace stator {

/// The objects made in the trace that can be reached from `roots`, each followed by what it holds: equal before and
/// after if none of them was changed. Nothing if there is an object that can't be looked into.
std::optional<std::vector<const Value*>> reachable(std::vector<const Value*> roots);

}  // namespace stator
