/// Reports about captures.
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
    // If there is a listener: the compiled function, and where in it the capture starts.
    Callee callee;
    Callee start;
    std::string graph_text;
    std::string plan_text;
    std::size_t nodes = 0;
    std::vector<std::string> guards;
    std::vector<std::pair<const char*, double>> times;  // seconds
    std::vector<std::string> recompiled;                // why each existing entry did not match
    std::vector<MismatchedCall> mismatched_calls;
    std::vector<std::string> knowledge;  // facts from earlier attempts and calls
    std::vector<std::string> symbols;    // the numbers and sizes that change between calls
    struct RelationLine {
        std::string text;
        UserLine where;
    };
    std::vector<RelationLine> relations;  // between those
    bool is_captured = false;
    std::optional<BreakReport> broken;

    /// Discards the results of earlier attempts, except their times.
    void start_attempt() {
        mismatched_calls.clear();
        broken.reset();
    }
    /// Describes the symbols and relations of a trace.
    void describe_numbers(const Trace& trace);
    /// A condition that the backend needs.
    void add_backend_relation(const std::string& text);
    /// Adds to the time of earlier attempts.
    void add_time(const char* stage, double seconds);
};

/// Called with a dict (see python/stator/report.py) after every capture; null if this thread has no listener.
extern thread_local PyObject* report_listener;

/// Passes the report to the listener of this thread. Never raises.
void publish(const CaptureReport& report);

/// An internal error as the reason why the code is not compiled.
BreakReport internal_error(PyCodeObject* code, const std::string& reason);
/// Publishes an internal error that left the frame uncompiled. The first one of a process is a warning.
void report_internal_error(PyCodeObject* code, const std::string& reason);
/// Only the warning.
void warn_of_internal_error(const BreakReport& report);

/// As a dict for Python. Throws PythonError.
Ref<> as_dict(const BreakReport& report);

/// Raises `stator.Unsupported`. Throws PythonError.
[[noreturn]] void raise_unsupported(const BreakReport& report);

}  // namespace stator
