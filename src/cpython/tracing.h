/// Who watches the execution: a debugger, a profiler, coverage.
///
/// A compiled frame skips the instructions at which the interpreter tells them of its call. So they are told here, and
/// of its end too. Profilers and coverage get nothing else of a compiled frame; a debugger that wants the lines of a
/// frame gets it uncompiled.
#pragma once

#include <Python.h>

#include "base/ref.h"
#include "cpython/frame.h"
#include "cpython/offset.h"

namespace stator::cpython {

/// `sys.settrace` or `sys.setprofile` is active on this thread, or a tool of `sys.monitoring` (3.12) listens to
/// everything.
bool is_being_traced(PyThreadState* thread);

/// As above, or a tool of `sys.monitoring` listens to this code object, or its instructions are still those for tools
/// that came or went since its last start.
bool is_being_traced(PyThreadState* thread, PyCodeObject* code);

/// A tool of `sys.monitoring` steps through the code, or the code can't be told of a change of tools but by starting in
/// the ordinary way.
bool has_to_start_in_cpython(PyThreadState* thread, PyCodeObject* code);

/// What `sys.settrace` has set on a thread.
struct TraceFunction {
    Py_tracefunc function = nullptr;
    PyObject* object = nullptr;
    friend bool operator==(const TraceFunction&, const TraceFunction&) = default;
};
TraceFunction trace_function(PyThreadState* thread);

/// A trace function written in Python has given the frame a local one (`f_trace`), which wants its lines. Functions
/// written in C, as coverage has them, are not asked: they want the lines of everything.
bool is_stepped(PyThreadState* thread, const Frame* frame);

/// Tells everybody that a frame at its start is called, and leaves it at its start. Throws PythonError if one of them
/// raised.
void tell_call(PyThreadState* thread, Frame* frame);
/// The same for a frame that begins in its middle, at the instruction at `offset`.
void tell_call(PyThreadState* thread, Frame* frame, Offset offset);
/// Tells everybody that the frame returns the value, or ends with the exception that is set. The frame `is_at_start` no
/// more. Throws PythonError if one of them raised.
void tell_return(PyThreadState* thread, Frame* frame, Offset offset, Borrowed<> value);
void tell_unwind(PyThreadState* thread, Frame* frame, Offset offset);

/// Nobody is told of anything on this thread while it lives.
class Unwatched {
  public:
    explicit Unwatched(PyThreadState* thread) : thread_(thread) { PyThreadState_EnterTracing(thread); }
    ~Unwatched() { PyThreadState_LeaveTracing(thread_); }
    Unwatched(const Unwatched&) = delete;
    Unwatched& operator=(const Unwatched&) = delete;

  private:
    PyThreadState* thread_;
};

/// While it lives, the frame counts as one whose call was told: `run_untouched` goes on behind that.
class Told {
  public:
    explicit Told(Frame* frame);
    ~Told();
    Told(const Told&) = delete;
    Told& operator=(const Told&) = delete;

  private:
    Frame* outer_;
};
bool was_told(const Frame* frame);
/// Goes on with a frame at its start, behind the instruction that tells of the call.
PyObject* run_told(PyThreadState* thread, Frame* frame);

/// Who watches a frame. What a debugger watches runs uncompiled.
enum class WatchedBy { Debugger, TraceFunction, Coverage };
/// Called for each frame that one of them watches; null if nobody wants to know.
extern void (*on_watched)(PyCodeObject* code, WatchedBy who);
void tell_watched(PyThreadState* thread, PyCodeObject* code, bool is_left_to_debugger);

}  // namespace stator::cpython
