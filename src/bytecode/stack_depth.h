/// How many values are on the stack before an instruction, by the bytecode alone.
#pragma once

#include <optional>

#include "bytecode/code.h"

namespace stator::bytecode {

/// None for an instruction that no path leads to, or that there is not. Goes over the whole code.
std::optional<int> stack_depth_before(const Code& code, Index at);

}  // namespace stator::bytecode
