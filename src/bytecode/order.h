/// What can run after an instruction, in the same call.
#pragma once

#include "bytecode/code.h"

namespace stator::bytecode {

/// Whether a jump leads from behind an instruction to it or to before it: it may run again.
bool is_in_loop(const Code& code, Index at);
/// Whether an instruction that may run after `at` reads the local variable.
bool may_read_after(const Code& code, Index at, int slot);

}  // namespace stator::bytecode
