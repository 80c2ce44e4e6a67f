/// Opcode handlers, declared one by one so that the table can name them; defined in files by group.
#pragma once

#include "trace/interpreter.h"

namespace stator::handlers {

#define OP(name, effect, operands) \
    void name(Interpreter& t, BytecodeFrame& frame, const bytecode::Instruction& instruction);
#include "bytecode/opcodes.def"
#undef OP

inline void next(BytecodeFrame& frame) {
    frame.at = frame.at.next();
}

/// Breaks: the instruction is known, and can't be captured for this reason.
[[noreturn]] inline void cannot(Interpreter& t, const char* reason) {
    t.break_graph(BreakKind::Instruction, reason);
}

}  // namespace stator::handlers
