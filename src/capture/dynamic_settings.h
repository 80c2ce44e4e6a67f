/// The settings of PyTorch that say which numbers and sizes become symbols.
#pragma once

#include "source/dynamic_policy.h"

namespace stator {

/// As they are now. Reads `torch._dynamo.config` only if the program has imported it: else it has the defaults.
DynamicPolicy read_dynamic_policy(DynamicShapes dynamic);

}  // namespace stator
