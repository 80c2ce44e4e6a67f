/// The contents of a code object: variables, line and exception tables, and the data that Stator attaches to
/// it.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/ref.h"
#include "cpython/offset.h"

namespace stator::cpython {

/// One code unit as the compiler emitted it.
struct CodeUnit {
    std::uint8_t opcode;
    std::uint8_t arg;
};

/// All code units, without specialisation and instrumentation, caches zeroed. CPython keeps them as long as the code.
/// Throws `PythonError`.
std::span<const CodeUnit> code_units(PyCodeObject* code);

/// How the slots at the start of a frame are used. An argument that is captured by a closure is both local and cell.
struct SlotKind {
    bool is_local;
    bool is_cell;
    bool is_free;
};

/// Locals, cells and free variables together: the length of a frame's `slots`.
int slot_count(PyCodeObject* code);
int stack_size(PyCodeObject* code);
SlotKind slot_kind(PyCodeObject* code, int slot);
Borrowed<> slot_name(PyCodeObject* code, int slot);
/// The first RESUME. Before it, cells are made and free variables copied.
Offset body_start(PyCodeObject* code);

/// The source line of the code units in [start, end). -1 if the compiler gave none.
struct LineRange {
    Offset start;
    Offset end;
    std::int32_t line;
};
std::vector<LineRange> line_table(PyCodeObject* code);

/// An exception raised in [start, end) continues at `target`, with the value stack cut to `depth`, then the offset of
/// the raising instruction (in code units, as an `int`) pushed if `push_lasti`, then the exception itself.
struct HandlerRange {
    Offset start;
    Offset end;
    Offset target;
    std::int32_t depth;
    bool push_lasti;
};
std::vector<HandlerRange> exception_table(PyCodeObject* code);

/// What Stator attaches to a code object. It is created on first use and freed with the code object.
struct CodeExtra {
    /// Data of another room, with the function that frees it.
    struct Slot {
        void* object = nullptr;
        void (*destroy)(void*) = nullptr;
    };
    /// `bytecode::Code`, see `bytecode::decode`.
    Slot decoded;
    /// The `run` room's compiled entries.
    Slot entries;
    /// The instruction that `return_at_once` jumps to: searched once, invalid if there is none.
    Offset return_value;
    bool return_value_is_known = false;
};

/// Throws `PythonError`.
CodeExtra& extra_of(PyCodeObject* code);
/// Null if nothing was attached yet.
CodeExtra* extra_if_any(PyCodeObject* code);

/// The parameter that Python suggests for an unknown keyword of a call, in its TypeError; null if there is
/// none, and before 3.13.
Ref<> suggested_parameter(std::span<PyObject* const> parameters, PyObject* keyword);

}  // namespace stator::cpython
