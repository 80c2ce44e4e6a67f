/// Instructions that load values, arrange them on the stack, or jump.
#pragma once

#include "bytecode/instruction.h"

namespace stator::bytecode {

/// Whether an instruction drops no reference and takes nothing from the stack.
bool only_loads(Op op);

}  // namespace stator::bytecode
