#include "cpython/tracing.h"

#include <dlfcn.h>

#include <utility>

#include "base/python_error.h"
#include "cpython/code_object.h"
#include "cpython/frame_layout.h"
#include "cpython/opcodes.h"

extern "C" {
int stator_is_watched(PyThreadState* thread);
int stator_is_code_watched(PyThreadState* thread, PyCodeObject* code);
int stator_wants_lines(PyThreadState* thread, PyCodeObject* code);
int stator_is_instrumented_for_others(PyThreadState* thread, PyCodeObject* code);
int stator_is_covered(PyThreadState* thread);
int stator_report_call(PyThreadState* thread, PyFrameObject* frame);
int stator_report_return(PyThreadState* thread, PyFrameObject* frame, PyObject* value);
/// Does nothing if the interpreter reports it.
int stator_report_first_line(PyThreadState* thread, PyFrameObject* frame);
int stator_report_unwind(PyThreadState* thread, PyFrameObject* frame, PyObject* exception);
}

namespace stator::cpython {

void (*on_watched)(PyCodeObject* code, WatchedBy who) = nullptr;

bool is_being_traced(PyThreadState* thread) {
    return stator_is_watched(thread) != 0;
}

bool is_being_traced(PyThreadState* thread, PyCodeObject* code) {
    return stator_is_watched(thread) != 0 || stator_is_code_watched(thread, code) != 0 ||
           stator_is_instrumented_for_others(thread, code) != 0;
}

namespace {

#if PY_VERSION_HEX >= 0x030C0000

/// Makes CPython update the instrumentation of the code for the current tools. Only a change of the local events of the
/// code does that, so a temporary tool changes them. False if no tool id is free.
bool adapt_instructions(PyCodeObject* code) {
    ErrorAside aside;
    Ref<> monitoring = Ref<>::share(PySys_GetObject("monitoring"));
    if (!monitoring) return false;
    for (int tool : {4, 3}) {
        Ref<> used = Ref<>::steal(PyObject_CallMethod(monitoring.get(), "use_tool_id", "is", tool, "stator"));
        if (!used) {
            PyErr_Clear();
            continue;
        }
        bool is_done = true;
        for (int events : {1, 0}) {
            Ref<> set =
                Ref<>::steal(PyObject_CallMethod(monitoring.get(), "set_local_events", "iOi", tool, code, events));
            is_done &= bool(set);
            PyErr_Clear();
        }
        Ref<> freed = Ref<>::steal(PyObject_CallMethod(monitoring.get(), "free_tool_id", "i", tool));
        PyErr_Clear();
        return is_done;
    }
    return false;
}

#else

bool adapt_instructions(PyCodeObject*) {
    return true;
}

#endif

/// Whether a trace function is CPython's wrapper around one written in Python.
bool calls_python(Py_tracefunc function) {
    Dl_info own, given;
    if (dladdr(reinterpret_cast<void*>(&PyEval_SetTrace), &own) == 0) return true;
    return dladdr(reinterpret_cast<void*>(function), &given) != 0 && given.dli_fbase == own.dli_fbase;
}

/// Undoes `enter_body`.
void leave_body(Frame* frame) {
    PyCodeObject* code = code_of(frame);
    for (int slot = 0; slot < slot_count(code); ++slot) {
        SlotKind kind = slot_kind(code, slot);
        if (kind.is_free) {
            set_slot(frame, slot, {});
        } else if (kind.is_cell) {
            PyObject* cell = slots(frame)[slot];
            if (cell != nullptr && PyCell_Check(cell)) set_slot(frame, slot, Ref<>::share(PyCell_GET(cell)));
        }
    }
    resume_at(frame, Offset{0});
}

Ref<PyFrameObject> linked_object() {
    PyFrameObject* object = PyEval_GetFrame();
    if (object == nullptr && PyErr_Occurred() == nullptr) PyErr_NoMemory();
    if (object == nullptr) throw PythonError();
    return Ref<PyFrameObject>::share(object);
}

thread_local Frame* reported_frame = nullptr;

}  // namespace

bool has_to_start_in_cpython(PyThreadState* thread, PyCodeObject* code) {
    if (stator_wants_lines(thread, code) != 0) return true;
    if (stator_is_instrumented_for_others(thread, code) == 0) return false;
    return !adapt_instructions(code) || stator_is_instrumented_for_others(thread, code) != 0;
}

TraceFunction trace_function(PyThreadState* thread) {
    return {thread->c_tracefunc, thread->c_traceobj};
}

bool is_stepped(PyThreadState* thread, const Frame* frame) {
    if (thread->c_tracefunc == nullptr || frame->frame_obj == nullptr || frame->frame_obj->f_trace == nullptr)
        return false;
    return calls_python(thread->c_tracefunc);
}

void report_call(PyThreadState* thread, Frame* frame) {
    enter_body(frame);
    report_call(thread, frame, body_start(code_of(frame)));
    leave_body(frame);
}

void report_call(PyThreadState* thread, Frame* frame, Offset offset) {
    LinkedFrame link(thread, frame, offset);
    checked(stator_report_call(thread, linked_object().get()));
}

void report_return(PyThreadState* thread, Frame* frame, Offset offset, Borrowed<> value) {
    if (is_at_start(frame)) enter_body(frame);
    LinkedFrame link(thread, frame, offset);
    checked(stator_report_return(thread, linked_object().get(), value));
}

void report_unwind(PyThreadState* thread, Frame* frame, Offset offset) {
    TakenError error = TakenError::take();
    if (is_at_start(frame)) enter_body(frame);
    LinkedFrame link(thread, frame, offset);
    // The exception of a profiler replaces the current one, as in CPython.
    checked(stator_report_unwind(thread, linked_object().get(), error.exception()));
    std::move(error).restore();
}

void report_watched(PyThreadState* thread, PyCodeObject* code, bool is_left_to_debugger) {
    if (on_watched == nullptr) return;
    if (is_left_to_debugger)
        on_watched(code, WatchedBy::Debugger);
    else if (thread->c_tracefunc != nullptr)
        on_watched(code, calls_python(thread->c_tracefunc) ? WatchedBy::TraceFunction : WatchedBy::Coverage);
    else if (stator_is_covered(thread) != 0)
        on_watched(code, WatchedBy::Coverage);
}

CallReported::CallReported(Frame* frame) : outer_(std::exchange(reported_frame, frame)) {}

CallReported::~CallReported() {
    reported_frame = outer_;
}

bool was_call_reported(const Frame* frame) {
    return reported_frame == frame;
}

PyObject* run_after_call_event(PyThreadState* thread, Frame* frame) {
    const Offset start = body_start(code_of(frame)), first = Offset::of_unit(start.unit() + 1);
    Offset linked;
    try {
        if (is_at_start(frame)) enter_body(frame);
        // For 3.13, the instruction to continue with is on a line that was already reported.
        LinkedFrame link(thread, frame, first);
        linked = next_offset(frame);
        checked(stator_report_first_line(thread, linked_object().get()));
    } catch (const PythonError&) {
        return run_raising(thread, frame, start);
    }
    // A debugger may have set `f_lineno`.
    if (next_offset(frame) == linked) resume_at(frame, first);
    return run(thread, frame);
}

}  // namespace stator::cpython
