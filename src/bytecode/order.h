/// Which instructions can run after another one, in the same call.
#pragma once

#include "bytecode/code.h"

namespace stator::bytecode {

/// Whether a later jump leads to the instruction or to an earlier one: it may run again.
bool is_in_loop(const Code& code, Index at);
/// Whether an instruction that may run after `at` reads the local variable.
bool may_read_after(const Code& code, Index at, int slot);

}  // namespace stator::bytecode
