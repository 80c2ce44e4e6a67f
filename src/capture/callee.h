/// Name, file and line of a function, for messages.
#pragma once

#include <string>

#include "bytecode/instruction.h"
#include "cpython/frame.h"

namespace stator {

/// A function and a line of it. A model is named by its class, at its `forward`; a decorated function by the function
/// inside the decorators.
struct Callee {
    std::string name;
    std::string file;
    int line = 0;
    /// "Net.forward (model.py:12)".
    std::string print() const { return name + " (" + file + ":" + std::to_string(line) + ")"; }
};

/// For a frame that is about to execute `at`: in the middle of a function, the line is that of `at`. Does not throw.
Callee callee_of(cpython::Frame* frame, bytecode::Index at);

/// The function as its code names it.
Callee callee_of(PyCodeObject* code, int line);
inline Callee callee_of(PyCodeObject* code) {
    return callee_of(code, code->co_firstlineno);
}

}  // namespace stator
