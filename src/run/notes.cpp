#include "run/notes.h"

#include "base/python_error.h"
#include "base/text.h"
#include "cpython/tracing.h"
#include "run/cache.h"

namespace stator {

std::string place_of(PyCodeObject* code, int line) {
    return std::string(utf8(code->co_qualname)) + " (" + std::string(utf8(code->co_filename)) + ":" +
           std::to_string(line) + ")";
}

namespace {

const char* name(NoteKind kind) {
    switch (kind) {
        case NoteKind::Information:
            return "info";
        case NoteKind::LogWarning:
            return "log";
        case NoteKind::Warning:
            return "warn";
    }
    return "info";
}

}  // namespace

void tell(NoteKind kind, NoteOnce once, const char* topic, PyCodeObject* code, int line, const std::string& text) {
    ErrorAside aside;
    // What is logged is nothing that a debugger should step through.
    cpython::Unwatched unwatched(PyThreadState_Get());
    try {
        Ref<> notes = checked(PyImport_ImportModule("stator.notes"));
        PyObject* listener = report_listener == nullptr ? Py_None : report_listener;
        checked(PyObject_CallMethod(notes.get(), "tell", "ssOisOOs", name(kind), topic, code->co_filename, line,
                                    text.c_str(), once == NoteOnce::AtPlace ? Py_True : Py_False, listener,
                                    place_of(code, code->co_firstlineno).c_str()));
    } catch (const PythonError&) {
        PyErr_WriteUnraisable(nullptr);
    }
}

namespace {

void tell_of_watched(PyCodeObject* code, cpython::WatchedBy who) {
    // Each time to a listener, else once: this is asked at each call.
    static bool was_told[3] = {};
    bool& is_told = was_told[static_cast<int>(who)];
    if (is_told && report_listener == nullptr) return;
    is_told = true;
    const std::string place = place_of(code, code->co_firstlineno);
    switch (who) {
        case cpython::WatchedBy::Debugger:
            tell(NoteKind::LogWarning, NoteOnce::InProcess, "debugger", code, code->co_firstlineno,
                 place +
                     " runs uncompiled, because a debugger or a trace function follows its lines (sys.settrace, "
                     "sys.monitoring). Its next call without that runs compiled. This is told once.");
            break;
        case cpython::WatchedBy::TraceFunction:
            tell(NoteKind::LogWarning, NoteOnce::InProcess, "trace_function", code, code->co_firstlineno,
                 place +
                     " runs compiled while a trace function is set (sys.settrace) that does not follow its lines. "
                     "What was captured of the functions that it calls is not seen by it: breakpoints in them are "
                     "not met. torch.compiler.set_stance('force_eager') runs everything uncompiled. This is told "
                     "once.");
            break;
        case cpython::WatchedBy::Coverage:
            tell(NoteKind::Information, NoteOnce::InProcess, "coverage", code, code->co_firstlineno,
                 place +
                     " runs compiled, so that coverage does not see the lines that were captured. "
                     "torch.compiler.set_stance('force_eager') runs everything uncompiled. This is told once.");
            break;
    }
}

}  // namespace

void tell_of_watchers() {
    cpython::on_watched = tell_of_watched;
}

}  // namespace stator
