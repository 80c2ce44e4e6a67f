/// Callables in messages.
#pragma once

#include "value/protocol/operations.h"

namespace stator {

/// A callable as messages about its arguments name it: `module.function()`.
std::string callable_title(Value* callable);

}  // namespace stator
