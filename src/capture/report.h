/// Reports about captures.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "capture/callee.h"
#include "capture/options.h"
#include "trace/trace.h"
#include "trace/trace_log.h"

namespace stator {

struct CaptureReport {
    Ref<PyCodeObject> code;
    Ref<> listener;          // of the compiled callable; may be empty
    bool has_texts = false;  // somebody reads the texts
    // If it has texts: the compiled function, and where in it the capture starts.
    Callee callee;
    Callee start;
    std::string graph_text;
    std::string plan_text;
    std::size_t nodes = 0;
    std::size_t calls = 0;  // those nodes that compute something
    std::size_t inputs = 0;
    std::size_t guard_count = 0;
    std::vector<std::string> guards;
    std::vector<std::string> guard_steps;               // of the guard program, in the order of a check
    std::vector<std::pair<const char*, double>> times;  // seconds
    std::vector<std::string> recompiled;                // why each existing entry did not match
    std::vector<Ref<>> compile_ids;                     // of these entries; empty for those without one
    std::vector<MismatchedCall> mismatched_calls;
    std::vector<std::string> knowledge;  // facts from earlier attempts and calls
    std::vector<std::string> symbols;    // the numbers and sizes that change between calls
    struct RelationLine {
        std::string text;
        UserLine where;
    };
    std::vector<RelationLine> relations;  // between those
    struct NodePlace {
        std::string node;
        std::string module;                              // `L['self'].layers.0`; empty if there is none
        std::vector<std::pair<std::string, int>> lines;  // file and line, the innermost frame first
        double share = 0;                                // of the time of the trace, since the node before
    };
    std::vector<NodePlace> places;  // where in the program each operation was called
    bool is_captured = false;
    std::optional<BreakReport> broken;
    std::optional<TraceLog> trace_log;  // if somebody reads it

    /// Discards the results of earlier attempts, except their times.
    void start_attempt() {
        mismatched_calls.clear();
        broken.reset();
        if (trace_log) trace_log->clear();
    }
    /// Describes where the operations of a graph come from.
    void describe_places(const Trace& trace);
    /// Describes the symbols and relations of a trace.
    void describe_numbers(const Trace& trace);
    /// A condition that the backend needs.
    void add_backend_relation(const std::string& text);
    /// Adds to the time of earlier attempts.
    void add_time(const char* stage, double seconds);
};

/// Called with a dict (see python/stator/report.py) after every capture; null if this thread has no listener.
extern thread_local PyObject* report_listener;
/// What follows the captures of all threads (see python/stator/observer.py); null if there is none.
extern PyObject* capture_observer;

/// Tells the observer when a capture begins and when it has ended, in whatever way; and on a terminal the line that
/// shows captures which take long (python/stator/progress.py).
class ObservedCapture {
  public:
    /// Decides whether the report has texts.
    ObservedCapture(const CompileOptions& options, cpython::Frame* frame, bytecode::Index at, std::size_t entries,
                    CaptureReport& report);
    ~ObservedCapture();
    ObservedCapture(const ObservedCapture&) = delete;
    ObservedCapture& operator=(const ObservedCapture&) = delete;

    bool is_followed() const { return static_cast<bool>(observer_); }

    /// The id that the observer gave to this capture; empty without one.
    Ref<> compile_id() const;

    /// Tells the observer why the entries that there are do not match.
    void tell_of_recompile(const CaptureReport& report) const;

  private:
    Ref<> observer_;
    bool is_shown_ = false;
};

/// Tells the listener of a callable whose entries another callable has tried in vain. Never raises.
void tell_listener_of_recompile(Borrowed<> listener, const std::vector<std::string>& reasons);

/// Tells the observer of the steps of a trace, its symbols, and the graph break that ended it, before the backend gets
/// the graph. Never raises.
void tell_observer_of_trace(const CaptureReport& report);

/// Passes the report to the observer, and if it has texts to the listeners of this thread and of the callable. Never
/// raises.
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
