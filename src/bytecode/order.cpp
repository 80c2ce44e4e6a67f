#include "bytecode/order.h"

#include <algorithm>

namespace stator::bytecode {

namespace {

bool reads(const Instruction& instruction, int slot) {
    switch (instruction.op) {
        case Op::LoadFast:
        case Op::LoadFastCheck:
        case Op::LoadFastAndClear:
            return instruction.arg == slot;
        default:
            return false;
    }
}

}  // namespace

bool is_in_loop(const Code& code, Index at) {
    auto rest = code.instructions().subspan(static_cast<std::size_t>(at.value));
    return std::ranges::any_of(
        rest, [at](const Instruction& next) { return next.target != kNoIndex && next.target.value <= at.value; });
}

bool may_read_after(const Code& code, Index at, int slot) {
    auto rest = code.instructions();
    if (!is_in_loop(code, at)) rest = rest.subspan(static_cast<std::size_t>(at.value) + 1);
    return std::ranges::any_of(rest, [slot](const Instruction& next) { return reads(next, slot); });
}

}  // namespace stator::bytecode
