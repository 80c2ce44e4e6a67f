/// The opcodes of the supported Pythons under one set of names, and how the versions differ. The `bytecode` room
/// handles the differences; other rooms don't see them.
#pragma once

#include <cstdint>

namespace stator::cpython {

/// An opcode under CPython's name, the same enumerator on every version, whether that version has it or not.
enum class RealOp : std::uint8_t {
#define REAL_OP(enumerator, name) enumerator,
#include "cpython/opcodes.def"
#undef REAL_OP
    Unknown,
};

/// The opcode with this number in the running version.
RealOp real_op(std::uint8_t number);
/// How many cache units follow the opcode with this number.
int cache_units(std::uint8_t number);
/// The number in the running version, -1 if it has no such opcode.
int number_of(RealOp op);
/// CPython's own name.
const char* name_of(RealOp op);

/// Differences in the meaning of the same opcode between versions.
struct Dialect {
    /// The position of the NULL that reserves room for `self` below the arguments of a call.
    /// 3.11, 3.12: `NULL, callable, arguments...` and `method, self, arguments...`
    /// 3.13:       `callable, NULL, arguments...` and `method, self, arguments...`
    /// It holds for PUSH_NULL with a callable, LOAD_GLOBAL with its null bit, LOAD_ATTR as a method,
    /// LOAD_SUPER_ATTR as a method, CALL, CALL_KW and CALL_FUNCTION_EX.
    bool null_above_callable;
    /// LOAD_FAST raises if the slot is unbound. From 3.12 on LOAD_FAST_CHECK does, and LOAD_FAST is used for bound
    /// slots.
    bool load_fast_checks;
    /// LOAD_ATTR's lowest bit asks for a method, and the name's index is in the bits above.
    bool load_attr_has_method_bit;
    /// The bits of COMPARE_OP's argument below the comparison.
    int compare_shift;
    /// The bit of COMPARE_OP's argument that asks for a `bool`; 0 where there is none.
    int compare_to_bool_bit;
    /// How many code units an exhausted FOR_ITER skips at its target: END_FOR, and POP_TOP from 3.13 on.
    int for_iter_skips;
    /// SEND leaves the exhausted iterator below its result, and END_SEND removes it. On 3.11 SEND does both.
    bool send_keeps_receiver;
};

/// The running version's.
extern const Dialect kDialect;

}  // namespace stator::cpython
