/// The call stack of a trace: all state that a real stack of frames would have.
#pragma once

#include <vector>

#include "trace/frame.h"

namespace stator {

/// The interpreter changes it; the recorder, the lifetimes and the writer of exits read it.
struct CallStack {
    std::vector<Activation*> frames;  // the entered frame first
    /// Tasks that wait, and of which only the coroutine knows how to continue. While there is one, everything above it
    /// is part of the instruction that started it.
    std::size_t opaque_tasks = 0;
    /// The exception that the innermost frame handles, or None. Null until the exception that was being handled when
    /// the trace began is read.
    Value* handled_exception = nullptr;
    /// The exception that was being handled when each running generator was resumed.
    std::vector<Value*> handled_around;
    /// Stands for the NULLs on CPython's stack.
    Value* null = nullptr;

    /// The state in which the current instruction started, to which a graph break rolls back.
    struct InstructionStart {
        std::size_t graph_size = 0;
        std::size_t depth = 0;  // of `frames`
        // Of the innermost frame, for instructions that may drop a reference:
        std::vector<Value*> stack;
        bytecode::Index at;
    };
    InstructionStart start;

    /// The innermost frame of a Python function; null if there is none.
    BytecodeFrame* innermost() const {
        for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
            if (!(*frame)->is_task) return static_cast<BytecodeFrame*>(*frame);
        return nullptr;
    }
};

}  // namespace stator
