/// The name and the place by which a user knows what runs.
#pragma once

#include <string>

#include "bytecode/instruction.h"
#include "cpython/frame.h"

namespace stator {

/// A function with a line of it. A model is named by its class and its `forward`, a decorated function by what is
/// inside the decorators.
struct Callee {
    std::string name;
    std::string file;
    int line = 0;
    /// "Net.forward (model.py:12)".
    std::string print() const { return name + " (" + file + ":" + std::to_string(line) + ")"; }
};

/// Of a frame that is about to execute `at`: in the middle of a function, the line is that of `at`. Does not throw.
Callee callee_of(cpython::Frame* frame, bytecode::Index at);

/// The function as its code names it.
Callee callee_of(PyCodeObject* code, int line);
inline Callee callee_of(PyCodeObject* code) {
    return callee_of(code, code->co_firstlineno);
}

}  // namespace stator
