#include "bytecode/assigned_slots.h"

namespace stator::bytecode {

std::vector<bool> assigned_slots(const Code& code) {
    std::vector<bool> assigned(static_cast<std::size_t>(code.slot_count()));
    for (const Instruction& instruction : code.instructions())
        if (instruction.op == Op::StoreFast) assigned[static_cast<std::size_t>(instruction.arg)] = true;
    return assigned;
}

}  // namespace stator::bytecode
