// Finds the tools that observe the execution, and reports calls to them: code that only compiles as C, because of the
// interpreter's headers.
#define Py_BUILD_CORE 1
#include <Python.h>

#undef _PyGC_FINALIZED
#include <internal/pycore_ceval.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>

#if PY_VERSION_HEX >= 0x030C0000

#include <internal/pycore_instruments.h>

// `sys.settrace` and `sys.setprofile` are tools that listen in all threads but act only in their own.
enum { kUserTools = (1 << PY_MONITORING_SYS_PROFILE_ID) - 1 };
// Coverage can do without the line events of compiled code.
enum { kDebuggers = kUserTools & ~(1 << PY_MONITORING_COVERAGE_ID) };

static uint8_t tools_of(const uint8_t* tools_by_event, size_t count) {
    uint8_t tools = 0;
    for (size_t i = 0; i < count; ++i) tools |= tools_by_event[i];
    return tools;
}

static uintptr_t monitoring_version(PyThreadState* thread) {
#if PY_VERSION_HEX >= 0x030D0000
    return thread->eval_breaker & ~(uintptr_t)_PY_EVAL_EVENTS_MASK;
#else
    return (uintptr_t)thread->interp->monitoring_version;
#endif
}

// A tool that was freed may leave its events behind (hypothesis does): it listens only if it has registered a callback.
static int any_listens(PyThreadState* thread, uint8_t tools, size_t event) {
    for (int tool = 0; tools != 0; ++tool, tools >>= 1)
        if ((tools & 1) != 0 && thread->interp->monitoring_callables[tool][event] != NULL) return 1;
    return 0;
}

static int any_listens_to(PyThreadState* thread, const uint8_t* tools_by_event, size_t count) {
    for (size_t event = 0; event < count; ++event)
        if (any_listens(thread, tools_by_event[event] & kUserTools, event)) return 1;
    return 0;
}

int stator_is_watched(PyThreadState* thread) {
    if (thread->c_tracefunc != NULL || thread->c_profilefunc != NULL) return 1;
    const _Py_GlobalMonitors* global = &thread->interp->monitors;
    return any_listens_to(thread, global->tools, sizeof(global->tools));
}

int stator_is_code_watched(PyThreadState* thread, PyCodeObject* code) {
    if (code->_co_monitoring == NULL) return 0;
    const _Py_LocalMonitors* local = &code->_co_monitoring->local_monitors;
    return any_listens_to(thread, local->tools, sizeof(local->tools));
}

static uint8_t tools_for(PyThreadState* thread, PyCodeObject* code, size_t event) {
    uint8_t tools = thread->interp->monitors.tools[event];
    if (code->_co_monitoring != NULL && event < sizeof(code->_co_monitoring->local_monitors.tools))
        tools |= code->_co_monitoring->local_monitors.tools[event];
    return tools;
}

int stator_wants_lines(PyThreadState* thread, PyCodeObject* code) {
    static const size_t kInside[] = {PY_MONITORING_EVENT_LINE, PY_MONITORING_EVENT_INSTRUCTION,
                                     PY_MONITORING_EVENT_JUMP, PY_MONITORING_EVENT_BRANCH};
    for (size_t i = 0; i < sizeof(kInside) / sizeof(*kInside); ++i)
        if (any_listens(thread, tools_for(thread, code, kInside[i]) & kDebuggers, kInside[i])) return 1;
    return 0;
}

int stator_is_covered(PyThreadState* thread) {
    uint8_t coverage = 1 << PY_MONITORING_COVERAGE_ID;
    uint8_t tools = thread->interp->monitors.tools[PY_MONITORING_EVENT_LINE] & coverage;
    return any_listens(thread, tools, PY_MONITORING_EVENT_LINE);
}

int stator_is_instrumented_for_others(PyThreadState* thread, PyCodeObject* code) {
    if (code->_co_instrumentation_version == monitoring_version(thread)) return 0;
    if (stator_is_watched(thread) || stator_is_code_watched(thread, code)) return 1;
    if (code->_co_monitoring == NULL) return 0;
    const _Py_LocalMonitors* active = &code->_co_monitoring->active_monitors;
    return tools_of(active->tools, sizeof(active->tools)) != 0;
}

/// Calls the callbacks of the tools for the event, with the offset or line at which it occurs. -1 with an exception if
/// one of them raised.
static int fire_at(PyThreadState* thread, PyFrameObject* frame, int event, long place, PyObject* value) {
    if (thread->tracing != 0) return 0;
    PyCodeObject* code = PyFrame_GetCode(frame);
    PyObject* at = PyLong_FromLong(place);
    if (at == NULL) {
        Py_DECREF(code);
        return -1;
    }
    PyObject* arguments[] = {NULL, (PyObject*)code, at, value};
    size_t count = (value == NULL ? 2 : 3) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    uint8_t tools = tools_for(thread, code, (size_t)event);
    int status = 0;
    for (int tool = 0; tool < PY_MONITORING_TOOL_IDS && status == 0; ++tool) {
        PyObject* callable = thread->interp->monitoring_callables[tool][event];
        if ((tools & (1 << tool)) == 0 || callable == NULL) continue;
        int what_before = thread->what_event;
        thread->what_event = event;
        thread->tracing++;
        Py_INCREF(callable);
        PyObject* answer = PyObject_Vectorcall(callable, arguments + 1, count, NULL);
        Py_DECREF(callable);
        thread->tracing--;
        thread->what_event = what_before;
        // A tool that returns `sys.monitoring.DISABLE` still gets these events.
        if (answer == NULL) status = -1;
        Py_XDECREF(answer);
    }
    Py_DECREF(at);
    Py_DECREF(code);
    return status;
}

static int fire(PyThreadState* thread, PyFrameObject* frame, int event, PyObject* value) {
    return fire_at(thread, frame, event, PyFrame_GetLasti(frame), value);
}

int stator_report_first_line(PyThreadState* thread, PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030D0000
    return fire_at(thread, frame, PY_MONITORING_EVENT_LINE, PyFrame_GetLineNumber(frame), NULL);
#else
    return 0;
#endif
}

int stator_report_call(PyThreadState* thread, PyFrameObject* frame) {
    return fire(thread, frame, PY_MONITORING_EVENT_PY_START, NULL);
}

int stator_report_return(PyThreadState* thread, PyFrameObject* frame, PyObject* value) {
    return fire(thread, frame, PY_MONITORING_EVENT_PY_RETURN, value);
}

int stator_report_unwind(PyThreadState* thread, PyFrameObject* frame, PyObject* exception) {
    return fire(thread, frame, PY_MONITORING_EVENT_PY_UNWIND, exception);
}

#else

int stator_is_watched(PyThreadState* thread) {
    return thread->cframe->use_tracing != 0;
}
int stator_is_code_watched(PyThreadState* thread, PyCodeObject* code) {
    return 0;
}
int stator_wants_lines(PyThreadState* thread, PyCodeObject* code) {
    return 0;
}
int stator_is_instrumented_for_others(PyThreadState* thread, PyCodeObject* code) {
    return 0;
}
int stator_is_covered(PyThreadState* thread) {
    return 0;
}

static int report(PyThreadState* thread, PyFrameObject* frame, int what, PyObject* value) {
    for (int is_profile = 0; is_profile < 2; ++is_profile) {
        Py_tracefunc function = is_profile ? thread->c_profilefunc : thread->c_tracefunc;
        if (function == NULL || thread->tracing != 0) continue;
        PyObject* object = is_profile ? thread->c_profileobj : thread->c_traceobj;
        Py_XINCREF(object);
        int what_before = thread->tracing_what;
        thread->tracing_what = what;
        PyThreadState_EnterTracing(thread);
        int status = function(object, frame, what, value);
        PyThreadState_LeaveTracing(thread);
        thread->tracing_what = what_before;
        Py_XDECREF(object);
        if (status != 0) return -1;
    }
    return 0;
}

int stator_report_call(PyThreadState* thread, PyFrameObject* frame) {
    return report(thread, frame, PyTrace_CALL, Py_None);
}
int stator_report_return(PyThreadState* thread, PyFrameObject* frame, PyObject* value) {
    return report(thread, frame, PyTrace_RETURN, value);
}
int stator_report_unwind(PyThreadState* thread, PyFrameObject* frame, PyObject* exception) {
    return report(thread, frame, PyTrace_RETURN, NULL);
}
int stator_report_first_line(PyThreadState* thread, PyFrameObject* frame) {
    return 0;
}

#endif
