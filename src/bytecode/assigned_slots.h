/// The variables that a function assigns to.
#pragma once

#include <vector>

#include "bytecode/code.h"

namespace stator::bytecode {

/// If a loop is entered in its middle, these differ from iteration to iteration.
std::vector<bool> assigned_slots(const Code& code);

}  // namespace stator::bytecode
