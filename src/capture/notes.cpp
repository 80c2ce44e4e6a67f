#include "capture/notes.h"

#include "base/python_error.h"
#include "base/text.h"
#include "capture/report.h"
#include "cpython/tracing.h"

namespace stator {

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

bool logs_information() {
    ErrorAside aside;
    Ref<> logging = Ref<>::steal(PyImport_ImportModule("stator.notes"));
    Ref<> logger = logging ? Ref<>::steal(PyObject_GetAttrString(logging.get(), "logger")) : Ref<>();
    constexpr int kInformation = 20;  // logging.INFO
    Ref<> answer =
        logger ? Ref<>::steal(PyObject_CallMethod(logger.get(), "isEnabledFor", "i", kInformation)) : Ref<>();
    if (!answer) PyErr_Clear();
    return answer.get() == Py_True;
}

void end_exception_of(Borrowed<> watcher) {
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0)
        PyErr_SetInterrupt();
    else
        PyErr_WriteUnraisable(watcher.get());
    PyErr_Clear();
}

void issue_note(NoteKind kind, NoteOnce once, const char* topic, const Callee& at, const std::string& text) {
    ErrorAside aside;
    // A debugger should not step into the logging.
    cpython::Unwatched unwatched(PyThreadState_Get());
    try {
        Ref<> notes = checked(PyImport_ImportModule("stator.notes"));
        if (once == NoteOnce::Never) {
            checked(PyObject_CallMethod(notes.get(), "log", "ss", topic, text.c_str()));
            return;
        }
        PyObject* listener = report_listener == nullptr ? Py_None : report_listener;
        checked(PyObject_CallMethod(notes.get(), "issue", "sssisOOs", name(kind), topic, at.file.c_str(), at.line,
                                    text.c_str(), once == NoteOnce::AtPlace ? Py_True : Py_False, listener,
                                    at.print().c_str()));
    } catch (const PythonError&) {
        end_exception_of(nullptr);
    }
}

namespace {

void note_watched_frame(PyCodeObject* code, cpython::WatchedBy who) {
    // Every time for a listener, otherwise once: this runs at each call.
    static bool was_issued[3] = {};
    bool& is_issued = was_issued[static_cast<int>(who)];
    if (is_issued && report_listener == nullptr) return;
    is_issued = true;
    const Callee at = callee_of(code);
    switch (who) {
        case cpython::WatchedBy::Debugger:
            issue_note(NoteKind::LogWarning, NoteOnce::InProcess, "debugger", at,
                       at.print() +
                           " runs uncompiled, because a debugger or a trace function follows its lines (sys.settrace, "
                           "sys.monitoring). Without one its next call runs compiled. This is logged once.");
            break;
        case cpython::WatchedBy::TraceFunction:
            issue_note(
                NoteKind::LogWarning, NoteOnce::InProcess, "trace_function", at,
                at.print() +
                    " runs compiled while a trace function is set (sys.settrace) that does not follow its lines. "
                    "It receives no events of inlined functions: breakpoints in them are not hit. "
                    "torch.compiler.set_stance('force_eager') runs everything uncompiled. This is logged "
                    "once.");
            break;
        case cpython::WatchedBy::Coverage:
            issue_note(NoteKind::Information, NoteOnce::InProcess, "coverage", at,
                       at.print() +
                           " runs compiled, so that coverage does not see the lines that were captured. "
                           "torch.compiler.set_stance('force_eager') runs everything uncompiled. This is logged once.");
            break;
    }
}

}  // namespace

void install_watcher_notes() {
    cpython::on_watched = note_watched_frame;
}

}  // namespace stator
