#include "module/watched_calls.h"

#include <chrono>

#include "base/python_error.h"
#include "base/ref.h"
#include "capture/notes.h"
#include "module/compiled_object.h"
#include "run/counts.h"

namespace stator {

namespace {

/// What this thread asked for. `before(compiled)` decides whether a call runs uncompiled, `after(...)` is told about
/// it.
struct Watching {
    PyObject* listener = nullptr;  // owned
    bool runs_uncompiled = false;

    bool is_on() const { return listener != nullptr || runs_uncompiled; }
};

thread_local Watching watching;
std::size_t watching_threads = 0;  // protected by the GIL

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// `listener.after(compiled, was uncompiled, began, seconds, captures, real steps, frames left to CPython)`.
void tell_listener(const Ref<>& listener, PyObject* self, bool is_uncompiled, double began, const RunCounts& before) {
    const double seconds = seconds_now() - began;
    ErrorAside aside;
    const RunCounts& now = run_counts;
    Ref<> told = Ref<>::steal(PyObject_CallMethod(
        listener.get(), "after", "OOddKKK", self, is_uncompiled ? Py_True : Py_False, began, seconds,
        now.captures - before.captures, now.real_steps - before.real_steps, now.left - before.left));
    if (!told) end_exception_of(listener.get());
}

PyObject* call_watched(PyObject* self, PyObject* const* arguments, std::size_t count_and_flags, PyObject* names) {
    Ref<> held = Ref<>::share(self);
    PyObject* callable = reinterpret_cast<CompiledObject*>(self)->callable;
    if (watching.runs_uncompiled) return PyObject_Vectorcall(callable, arguments, count_and_flags, names);
    if (watching.listener == nullptr) return call_compiled(self, arguments, count_and_flags, names);
    Ref<> listener = Ref<>::share(watching.listener);
    Ref<> answer = Ref<>::steal(PyObject_CallMethod(listener.get(), "before", "O", self));
    if (!answer) end_exception_of(listener.get());
    const bool is_uncompiled = answer.get() == Py_True;
    const RunCounts before = run_counts;
    const double began = seconds_now();
    PyObject* result = is_uncompiled ? PyObject_Vectorcall(callable, arguments, count_and_flags, names)
                                     : call_compiled(self, arguments, count_and_flags, names);
    tell_listener(listener, self, is_uncompiled, began, before);
    return result;
}

/// Changes what this thread asked for.
template <class Change>
void change_watching(Change change) {
    const bool was_on = watching.is_on();
    change();
    const bool is_on = watching.is_on();
    if (was_on == is_on) return;
    watching_threads += is_on ? 1 : -1;
    for (CompiledObject* compiled : all_compiled()) compiled->vectorcall = current_call();
}

}  // namespace

vectorcallfunc current_call() {
    return watching_threads == 0 ? call_compiled : call_watched;
}

PyObject* watch_calls(PyObject*, PyObject* listener) {
    PyObject* before = watching.listener;
    change_watching([&] { watching.listener = listener == Py_None ? nullptr : Py_NewRef(listener); });
    return before == nullptr ? Py_NewRef(Py_None) : before;
}

PyObject* run_uncompiled(PyObject*, PyObject* is_on) {
    const bool before = watching.runs_uncompiled;
    change_watching([&] { watching.runs_uncompiled = PyObject_IsTrue(is_on) == 1; });
    return PyBool_FromLong(before ? 1 : 0);
}

}  // namespace stator
