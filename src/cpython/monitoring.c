// The state of `sys.monitoring` in the interpreter, whose headers only compile as C.
#define Py_BUILD_CORE 1
#include <Python.h>

#undef _PyGC_FINALIZED
#include <internal/pycore_ceval.h>
#include <internal/pycore_interp.h>

#if PY_VERSION_HEX >= 0x030C0000

// `sys.settrace` and `sys.setprofile` are tools of their own that listen in all threads but act in their own only.
enum { kUserTools = (1 << PY_MONITORING_SYS_PROFILE_ID) - 1 };

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

int stator_is_monitored(PyThreadState* thread) {
    if (thread->c_tracefunc != NULL || thread->c_profilefunc != NULL) return 1;
    const _Py_GlobalMonitors* global = &thread->interp->monitors;
    return (tools_of(global->tools, sizeof(global->tools)) & kUserTools) != 0;
}

int stator_is_code_monitored(PyThreadState* thread, PyCodeObject* code) {
    if (code->_co_monitoring == NULL) return 0;
    const _Py_LocalMonitors* local = &code->_co_monitoring->local_monitors;
    if ((tools_of(local->tools, sizeof(local->tools)) & kUserTools) != 0) return 1;
    // Instrumented for tools that may be gone; RESUME is where CPython looks after that.
    if (code->_co_instrumentation_version == monitoring_version(thread)) return 0;
    const _Py_LocalMonitors* active = &code->_co_monitoring->active_monitors;
    return tools_of(active->tools, sizeof(active->tools)) != 0;
}

#else

int stator_is_monitored(PyThreadState* thread) {
    return thread->cframe->use_tracing != 0;
}
int stator_is_code_monitored(PyThreadState* thread, PyCodeObject* code) {
    return 0;
}

#endif
