#include "cpython/hook.h"

#include "base/python_error.h"
#include "base/short_list.h"
#include "cpython/code_object.h"
#include "cpython/coroutines.h"
#include "cpython/frame_layout.h"
#include "cpython/objects.h"
#include "cpython/tracing.h"

namespace stator::cpython {

namespace {

/// A call that is waiting for its frame. Stored on the C stack of the call, and in a list while it waits. The GIL
/// protects the list, which has at most one element for each thread.
struct Waiting {
    PyThreadState* thread;
    PyCodeObject* code;  // null: any function
    FrameHandler handler;
    void* context;
    bool even_if_traced;
    Frame* only = nullptr;  // the frame of a resumed generator; null: any frame at its start
    Waiting* next = nullptr;
    bool is_linked = false;
};

Waiting* first_waiting = nullptr;
/// The hook that was installed before ours. Ours is installed while a call waits.
_PyFrameEvalFunction hook_below = _PyEval_EvalFrameDefault;
/// Another tool may install its hook on top of ours, chain to ours, and stay. This is the hook that was below ours
/// then; ours keeps passing frames to it, until the tool has restored ours.
_PyFrameEvalFunction hook_below_tool = _PyEval_EvalFrameDefault;

PyObject* hook(PyThreadState* thread, Frame* frame, int throwing);

void link(Waiting& waiting) {
    if (first_waiting == nullptr) {
        _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(waiting.thread->interp);
        if (current == hook) {
            hook_below = hook_below_tool;
        } else {
            hook_below = current;
            _PyInterpreterState_SetEvalFrameFunc(waiting.thread->interp, hook);
        }
    }
    waiting.next = first_waiting;
    first_waiting = &waiting;
    waiting.is_linked = true;
}

void unlink(Waiting& waiting) {
    Waiting** place = &first_waiting;
    while (*place != &waiting) place = &(*place)->next;
    *place = waiting.next;
    waiting.is_linked = false;
    if (first_waiting != nullptr) return;
    if (_PyInterpreterState_GetEvalFrameFunc(waiting.thread->interp) == hook)
        _PyInterpreterState_SetEvalFrameFunc(waiting.thread->interp, hook_below);
    else
        hook_below_tool = hook_below;
}

Waiting* find_waiting(PyThreadState* thread) {
    for (Waiting* waiting = first_waiting; waiting != nullptr; waiting = waiting->next)
        if (waiting->thread == thread) return waiting;
    return nullptr;
}

PyObject* pass_on(PyThreadState* thread, Frame* frame, int throwing) {
    static thread_local Frame* passing = nullptr;
    // A tool's hook that stayed is below ours, and chains back to ours with the same frame.
    const bool is_chained = first_waiting == nullptr || passing == frame;
    if (is_chained) return hook_below_tool(thread, frame, throwing);
    if (hook_below == _PyEval_EvalFrameDefault) return _PyEval_EvalFrameDefault(thread, frame, throwing);
    Frame* outer = passing;
    passing = frame;
    PyObject* result = hook_below(thread, frame, throwing);
    passing = outer;
    return result;
}

bool is_function_frame(const Frame* frame) {
    int flags = layout::code(frame)->co_flags;
    if ((flags & CO_OPTIMIZED) == 0) return false;
    // The call of an asynchronous function runs nothing of its body.
    return is_generator_frame(frame) || (is_at_start(frame) && (flags & kAsynchronousCode) == 0);
}

/// Passes an observed frame to the handler, after reporting the call; or runs it in the interpreter, if a tool wants
/// line events.
PyObject* handle_watched(Waiting& waiting, PyThreadState* thread, Frame* frame) {
    PyCodeObject* code = layout::code(frame);
    // The call of a generator function is not reported; each step of the generator is.
    if ((code->co_flags & kSuspendedCode) != 0) return run_untouched(thread, frame);
    if (has_to_start_in_cpython(thread, code)) {
        report_watched(thread, code, /*is_left_to_debugger=*/true);
        return run_untouched(thread, frame);
    }
    try {
        report_call(thread, frame);
    } catch (const PythonError&) {
        return run_raising(thread, frame, body_start(code));
    }
    // A debugger may request line events when the call is reported.
    const bool is_left_to_debugger = is_stepped(thread, frame) || has_to_start_in_cpython(thread, code);
    report_watched(thread, code, is_left_to_debugger);
    if (is_left_to_debugger) return run_after_call_event(thread, frame);
    CallReported reported(frame);
    return waiting.handler(thread, frame, waiting.context);
}

PyObject* hook_callback(Waiting& waiting, PyThreadState* thread, Frame* frame) {
    unlink(waiting);
    PyObject* result = is_being_traced(thread, layout::code(frame)) ? handle_watched(waiting, thread, frame)
                                                                    : waiting.handler(thread, frame, waiting.context);
    link(waiting);
    return result;
}

PyObject* hook(PyThreadState* thread, Frame* frame, int throwing) {
    Waiting* waiting = find_waiting(thread);
    if (waiting != nullptr && waiting->code == nullptr) {
        if (throwing != 0 || !is_function_frame(frame)) return pass_on(thread, frame, throwing);
        return hook_callback(*waiting, thread, frame);
    }
    if (waiting == nullptr || waiting->code != layout::code(frame) || throwing != 0 ||
        (waiting->only == nullptr ? !is_at_start(frame) : waiting->only != frame))
        return pass_on(thread, frame, throwing);
    unlink(*waiting);
    if (!waiting->even_if_traced && is_being_traced(thread, waiting->code)) [[unlikely]]
        return handle_watched(*waiting, thread, frame);
    return waiting->handler(thread, frame, waiting->context);
}

/// Runs an action while the hook waits for its frame.
template <class Action>
auto while_waiting(Waiting& waiting, Action action) {
    Waiting* outer = find_waiting(waiting.thread);
    if (outer != nullptr) [[unlikely]]
        unlink(*outer);
    link(waiting);
    auto result = action();
    if (waiting.is_linked) unlink(waiting);
    if (outer != nullptr) [[unlikely]]
        link(*outer);
    return result;
}

PyObject* call(Waiting& waiting, PyObject* callable, PyObject* const* arguments, std::size_t count_and_flags,
               PyObject* keyword_names) {
    return while_waiting(waiting,
                         [&] { return PyObject_Vectorcall(callable, arguments, count_and_flags, keyword_names); });
}

}  // namespace

bool has_hook_of_others() {
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(PyThreadState_Get()->interp);
    return current != _PyEval_EvalFrameDefault && (current != hook || hook_below != _PyEval_EvalFrameDefault);
}

const void* hook_of_others() {
    if (!has_hook_of_others()) return nullptr;
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(PyThreadState_Get()->interp);
    return reinterpret_cast<const void*>(current == hook ? hook_below : current);
}

bool is_hook_waiting() {
    return find_waiting(PyThreadState_Get()) != nullptr;
}

PyObject* call_with_hook(PyCodeObject* code, FrameHandler handler, void* context, PyObject* callable,
                         PyObject* const* arguments, std::size_t count_and_flags, PyObject* keyword_names) {
    Waiting waiting{PyThreadState_Get(), code, handler, context, /*even_if_traced=*/false};
    return call(waiting, callable, arguments, count_and_flags, keyword_names);
}

namespace {

/// The arguments of a call that binds every parameter to `None`.
struct Placeholders {
    ShortList<PyObject*, 16> values;
    Ref<> keyword_names;
    std::size_t count_and_flags = 0;

    /// False with an exception if memory is exhausted.
    bool prepare(PyCodeObject* code) {
        if (code->co_kwonlyargcount > 0) {
            // The names of parameters come first among all variables.
            keyword_names = Ref<>::steal(PyTuple_GetSlice(code->co_localsplusnames, code->co_argcount,
                                                          code->co_argcount + code->co_kwonlyargcount));
            if (!keyword_names) return false;
        }
        for (int i = 0; i <= code->co_argcount + code->co_kwonlyargcount; ++i) values.push_back(Py_None);
        count_and_flags = static_cast<std::size_t>(code->co_argcount) | PY_VECTORCALL_ARGUMENTS_OFFSET;
        return true;
    }
    PyObject* const* arguments() const { return values.begin() + 1; }
};

}  // namespace

PyObject* call_primed(PyFunctionObject* function, FrameHandler handler, void* context) {
    PyCodeObject* code = code_of(function);
    Placeholders placeholders;
    if (!placeholders.prepare(code)) return nullptr;
    Waiting waiting{PyThreadState_Get(), code, handler, context, /*even_if_traced=*/true};
    return call(waiting, reinterpret_cast<PyObject*>(function), placeholders.arguments(), placeholders.count_and_flags,
                placeholders.keyword_names.get());
}

PyObject* call_with_placeholders(PyFunctionObject* function) {
    Placeholders placeholders;
    if (!placeholders.prepare(code_of(function))) return nullptr;
    return PyObject_Vectorcall(reinterpret_cast<PyObject*>(function), placeholders.arguments(),
                               placeholders.count_and_flags, placeholders.keyword_names.get());
}

struct HookCallbacks::State {
    Waiting waiting;
    Waiting* outer;
};

HookCallbacks::HookCallbacks(PyThreadState* thread, FrameHandler handler, void* context)
    : state_(new State{Waiting{thread, nullptr, handler, context, false}, find_waiting(thread)}) {
    if (state_->outer != nullptr) unlink(*state_->outer);
    link(state_->waiting);
}

HookCallbacks::~HookCallbacks() {
    unlink(state_->waiting);
    if (state_->outer != nullptr) link(*state_->outer);
}

PySendResult send_with_hook(PyObject* generator, PyObject* value, bool is_primed, FrameHandler handler, void* context,
                            PyObject** result) {
    auto* frame = reinterpret_cast<Frame*>(reinterpret_cast<PyGenObject*>(generator)->gi_iframe);
    Ref<> code = Ref<>::share(reinterpret_cast<PyObject*>(generator_code(generator)));
    Waiting waiting{PyThreadState_Get(),
                    reinterpret_cast<PyCodeObject*>(code.get()),
                    handler,
                    context,
                    /*even_if_traced=*/is_primed,
                    frame};
    return while_waiting(waiting, [&] { return PyIter_Send(generator, value, result); });
}

}  // namespace stator::cpython
