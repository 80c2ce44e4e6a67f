/// One instruction executed for real, through the C API, on a real frame.
#pragma once

#include "bytecode/code.h"
#include "cpython/frame.h"

namespace stator {

/// Where a frame goes on after an instruction.
struct Stepped {
    enum class Kind : std::uint8_t {
        Next,    // at `next`
        Leave,   // the instruction was not touched: CPython has to go on with it
        Raised,  // an exception is set
    };
    Kind kind = Kind::Next;
    bytecode::Index next;
    /// The exception was raised before: its traceback knows this frame already.
    bool raised_again = false;
};

/// How a generator goes on: `PyIter_Send`, or something that captures what the generator does.
using Sender = PySendResult (*)(void* context, PyObject* generator, PyObject* value, PyObject** result);

/// Executes the instruction at `at`. The frame has its operands on the stack and must be linked.
Stepped step(cpython::Frame* frame, const bytecode::Code& code, bytecode::Index at, Sender send, void* context);

/// What an instruction waited for.
struct Result {
    Ref<> value;             // empty at the end of an iteration
    bool has_ended = false;  // of a generator: it has returned the value
};

/// Ends an instruction that waited for a result, operands already taken off the stack.
Stepped complete(cpython::Frame* frame, const bytecode::Code& code, bytecode::Index at, Result result);

}  // namespace stator
