/// Opcode handlers, one for each operation in bytecode/opcodes.def; defined in files by group.
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

/// Breaks the graph at an instruction that is not supported.
[[noreturn]] inline void cannot(Interpreter& t, const char* reason) {
    t.break_graph(BreakKind::Instruction, reason);
}

}  // namespace stator::handlers
