/// What is told to the user about a capture.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "capture/callee.h"
#include "trace/trace.h"

namespace stator {

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
    std::vector<std::string> knowledge;  // what earlier attempts and calls have taught
    bool is_captured = false;
    std::optional<BreakReport> broken;

    /// What the attempts before have left is gone, but for the time that they took.
    void start_attempt() {
        mismatched_calls.clear();
        broken.reset();
    }
    /// Attempts add up.
    void add_time(const char* stage, double seconds);
};

/// Called with a dict (see python/stator/report.py) after every capture; null if nobody listens in this thread.
extern thread_local PyObject* report_listener;

/// Hands the report to whoever listens in this thread. Never raises.
void publish(const CaptureReport& report);

/// An error of Stator's own as the reason why the code is not compiled.
BreakReport internal_error(PyCodeObject* code, const std::string& reason);
/// Publishes an error of Stator's own that left the frame uncompiled. The first one of a process is a warning.
void report_internal_error(PyCodeObject* code, const std::string& reason);
/// The warning alone.
void warn_of_internal_error(const BreakReport& report);

/// As it is told to Python. Throws PythonError.
Ref<> as_dict(const BreakReport& report);

/// Raises `stator.Unsupported`. Throws PythonError.
[[noreturn]] void raise_unsupported(const BreakReport& report);

}  // namespace stator
