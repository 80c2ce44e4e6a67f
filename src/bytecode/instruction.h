/// One instruction, the same for every supported Python.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "cpython/offset.h"

namespace stator::bytecode {

using cpython::kNoOffset;
using cpython::Offset;

/// What an instruction does; opcodes.def says it for each.
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
    /// CPython may be told to go on at `start` with this instruction. Not so with the second half of an opcode that
    /// stands for two instructions: such a one is finished first (see run/frame_run.cpp).
    bool can_resume = true;
    std::int32_t arg = 0;
    std::int32_t extra = 0;
    /// Where a jump goes.
    Index target = kNoIndex;
    /// The number of the exception handler in `Code::handlers`, -1 if an exception leaves the frame.
    std::int32_t handler = -1;
    /// Where CPython begins with it, prefixes included.
    Offset start;
    /// Where the opcode itself stands: what tracebacks, exception tables and `LinkedFrame` go by.
    Offset offset;
    /// Where CPython goes on after it if it does not jump.
    Offset next_offset;
    /// -1 if the compiler gave none.
    std::int32_t line = -1;
};

const char* name_of(Op op);
/// `before -- after`, see opcodes.def.
const char* stack_effect_of(Op op);
const char* operands_of(Op op);

/// By how much the depth of the stack changes: if it jumps to its `target`, or else when the next instruction starts.
int stack_effect(const Instruction& instruction, bool jumps);
/// Whether the next instruction can be reached from it. A generator's frame goes on behind what leaves it for a while.
bool falls_through(Op op);

/// The operator of a `BinaryOp`, `+` or `+=`, and of a `CompareOp`.
const char* binary_operator_text(int arg);
const char* comparison_text(int arg);

}  // namespace stator::bytecode
