/// Tools that observe the execution: debuggers, profilers, coverage.
///
/// A compiled frame skips the instructions at which the interpreter reports its call. So call and return are reported
/// here. Profilers and coverage receive no other events of a compiled frame; if a debugger wants line events, the
/// frame runs uncompiled.
#pragma once

#include <Python.h>

#include "base/ref.h"
#include "cpython/frame.h"
#include "cpython/offset.h"

namespace stator::cpython {

/// `sys.settrace` or `sys.setprofile` is active on this thread, or a tool of `sys.monitoring` (3.12) has global
/// events.
bool is_being_traced(PyThreadState* thread);

/// As above, or a tool of `sys.monitoring` has events for this code object, or its instrumentation is out of date
/// because tools were added or removed since its last start.
bool is_being_traced(PyThreadState* thread, PyCodeObject* code);

/// A tool of `sys.monitoring` steps through the code, or the instrumentation of the code can only be updated by
/// starting it in the interpreter.
bool has_to_start_in_cpython(PyThreadState* thread, PyCodeObject* code);

/// The trace function of a thread.
struct TraceFunction {
    Py_tracefunc function = nullptr;
    PyObject* object = nullptr;
    friend bool operator==(const TraceFunction&, const TraceFunction&) = default;
};
TraceFunction trace_function(PyThreadState* thread);

/// A Python trace function has set a local one (`f_trace`) on the frame, which wants line events. Trace functions
/// written in C, such as that of coverage, don't count: they want the lines of every frame.
bool is_stepped(PyThreadState* thread, const Frame* frame);

/// Reports the call of a frame that is at its start, and leaves it there. Throws PythonError if a tool
/// raised.
void report_call(PyThreadState* thread, Frame* frame);
/// The same for a frame that is entered at the instruction at `offset`.
void report_call(PyThreadState* thread, Frame* frame, Offset offset);
/// Reports that the frame returns the value, or ends with the exception that is set. The frame is then not
/// `is_at_start`. Throws PythonError if a tool raised.
void report_return(PyThreadState* thread, Frame* frame, Offset offset, Borrowed<> value);
void report_unwind(PyThreadState* thread, Frame* frame, Offset offset);

/// No events are reported on this thread while it lives.
class Unwatched {
  public:
    explicit Unwatched(PyThreadState* thread) : thread_(thread) { PyThreadState_EnterTracing(thread); }
    ~Unwatched() { PyThreadState_LeaveTracing(thread_); }
    Unwatched(const Unwatched&) = delete;
    Unwatched& operator=(const Unwatched&) = delete;

  private:
    PyThreadState* thread_;
};

/// While it lives, the call of the frame counts as reported: `run_untouched` resumes after that instruction.
class CallReported {
  public:
    explicit CallReported(Frame* frame);
    ~CallReported();
    CallReported(const CallReported&) = delete;
    CallReported& operator=(const CallReported&) = delete;

  private:
    Frame* outer_;
};
bool was_call_reported(const Frame* frame);
/// Resumes a frame that is at its start, after the instruction that reports the call.
PyObject* run_after_call_event(PyThreadState* thread, Frame* frame);

/// The kind of tool that observes a frame. Under a debugger it runs uncompiled.
enum class WatchedBy { Debugger, TraceFunction, Coverage };
/// Called for each frame that a tool observes; may be null.
extern void (*on_watched)(PyCodeObject* code, WatchedBy who);
void report_watched(PyThreadState* thread, PyCodeObject* code, bool is_left_to_debugger);

}  // namespace stator::cpython
