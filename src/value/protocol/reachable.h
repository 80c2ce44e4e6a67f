/// The contents of objects created in the trace, to detect changes of them: changes of outside objects are side
/// effects.
#pragma once

#include <optional>
#include <vector>

#include "value/value.h"

namespace stator {

/// The objects created in the trace that are reachable from `roots`, each followed by its contents. Two results are
/// equal if no object was changed in between. Nothing if the contents of an object are unknown.
std::optional<std::vector<const Value*>> reachable(std::vector<const Value*> roots);

}  // namespace stator
