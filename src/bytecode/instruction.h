/// One instruction, the same for every supported Python.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "cpython/offset.h"

namespace stator::bytecode {

using cpython::kNoOffset;
using cpython::Offset;

/// What an instruction does; opcodes.def describes each.
enum class Op : std::uint16_t {
#define OP(name, effect, operands) name,
#include "bytecode/opcodes.def"
#undef OP
};

constexpr int kOpCount = 0
#define OP(name, effect, operands) +1
#include "bytecode/opcodes.def"
#undef OP
    ;

/// A position in the list of decoded instructions. Not a place in CPython's bytecode: that is an `Offset`.
struct Index {
    std::int32_t value = -1;

    constexpr bool is_valid() const { return value >= 0; }
    constexpr Index next() const { return {value + 1}; }
    friend constexpr auto operator<=>(Index, Index) = default;
};

constexpr Index kNoIndex{};

struct Instruction {
    Op op = Op::Nop;
    /// Whether CPython can resume at `start` with this instruction. False for the second half of an opcode that is
    /// decoded as two instructions: it is executed before the frame is left to CPython (see run/frame_run.cpp).
    bool can_resume = true;
    std::int32_t arg = 0;
    std::int32_t extra = 0;
    /// The target of a jump.
    Index target = kNoIndex;
    /// The index of the exception handler in `Code::handlers`, -1 if an exception leaves the frame.
    std::int32_t handler = -1;
    /// The offset of its first code unit, prefixes included.
    Offset start;
    /// The offset of the opcode itself, which tracebacks, exception tables and `LinkedFrame` use.
    Offset offset;
    /// The offset of the next instruction if it does not jump.
    Offset next_offset;
    /// -1 if the compiler gave none.
    std::int32_t line = -1;
};

const char* name_of(Op op);
/// `before -- after`, see opcodes.def.
const char* stack_effect_of(Op op);
const char* operands_of(Op op);

/// The change of the stack depth: if it jumps to its `target`, or if execution continues at the next instruction.
int stack_effect(const Instruction& instruction, bool jumps);
/// Whether execution can continue at the next instruction. After a yield it can, when the generator is resumed.
bool falls_through(Op op);

/// The operator of a `BinaryOp`, `+` or `+=`, and of a `CompareOp`.
const char* binary_operator_text(int arg);
const char* comparison_text(int arg);

}  // namespace stator::bytecode
