/// Executes one instruction of a real frame through the C API, after a graph break.
#pragma once

#include "bytecode/code.h"
#include "cpython/frame.h"

namespace stator {

/// Where a frame continues after an instruction.
struct Stepped {
    enum class Kind : std::uint8_t {
        Next,    // at `next`
        Leave,   // the instruction was not executed: CPython has to resume with it
        Raised,  // an exception is set
    };
    Kind kind = Kind::Next;
    bytecode::Index next;
    /// The exception was raised before: its traceback has this frame already.
    bool raised_again = false;
};

/// Resumes a generator: `PyIter_Send`, or a function that also captures what the generator does.
using Sender = PySendResult (*)(void* context, PyObject* generator, PyObject* value, PyObject** result);

/// Executes the instruction at `at`. The frame has its operands on the stack and must be linked.
Stepped step(cpython::Frame* frame, const bytecode::Code& code, bytecode::Index at, Sender send, void* context);

/// The result that an instruction waited for.
struct Result {
    Ref<> value;             // empty at the end of an iteration
    bool has_ended = false;  // of a generator: it has returned the value
};

/// Finishes an instruction that waited for a result; its operands are already popped.
Stepped complete(cpython::Frame* frame, const bytecode::Code& code, bytecode::Index at, Result result);

}  // namespace stator
