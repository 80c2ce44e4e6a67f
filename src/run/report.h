/// What is told to the user about a capture.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "cpython/frame.h"
#include "trace/interpreter.h"

namespace stator {

/// What a frame runs, as the user knows it: a model by its class and its `forward`, a decorated function by what is
/// inside the decorators.
struct Callee {
    std::string name;
    std::string file;
    int line = 0;
    std::string print() const { return name + " (" + file + ":" + std::to_string(line) + ")"; }
};

/// Of a frame that is about to execute `at`: in the middle of a function, the line is that of `at`. Does not throw.
Callee callee_of(cpython::Frame* frame, bytecode::Index at);

struct CaptureReport {
    Ref<PyCodeObject> code;
    // If somebody listens: what was compiled, and the place in it where the capture starts.
    Callee callee;
    Callee start;
    std::string graph_text;
    std::string plan_text;
    std::size_t nodes = 0;
    std::vector<std::string> guards;
    std::vector<std::pair<const char*, double>> times;  // seconds
    std::vector<std::string> recompiled;                // why each of the entries that were there did not fit
    std::vector<MismatchedCall> mismatched_calls;
    bool is_captured = false;
    const BreakReport* broken = nullptr;
};

/// Hands the report to whoever listens in this thread. Never raises.
void publish(const CaptureReport& report);

/// The same for an error of Stator's own that left the frame uncompiled.
void report_internal_error(PyCodeObject* code, const std::string& reason);

/// As it is told to Python. Throws PythonError.
Ref<> as_dict(const BreakReport& report);

/// Raises `stator.Unsupported`. Throws PythonError.
[[noreturn]] void raise_unsupported(const BreakReport& report);

}  // namespace stator
