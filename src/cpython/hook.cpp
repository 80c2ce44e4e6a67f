#include "cpython/hook.h"

#include "cpython/frame_layout.h"
#include "cpython/tracing.h"

namespace stator::cpython {

namespace {

/// A call that waits for its frame. They live on the C stack of their call, and in a list while they wait. The list is
/// under the GIL as everything here, and has an element for each thread at most.
struct Waiting {
    PyThreadState* thread;
    PyCodeObject* code;
    FrameHandler handler;
    void* context;
    Waiting* next = nullptr;
    bool is_linked = false;
};

Waiting* first_waiting = nullptr;
/// The hook that was there when ours was put on.
_PyFrameEvalFunction hook_below = _PyEval_EvalFrameDefault;

PyObject* hook(PyThreadState* thread, Frame* frame, int throwing);

void link(Waiting& waiting) {
    if (first_waiting == nullptr) {
        _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(waiting.thread->interp);
        if (current != hook) {
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
    // If another tool put its hook on top of ours meanwhile, ours stays below it and only passes frames on.
    if (first_waiting == nullptr && _PyInterpreterState_GetEvalFrameFunc(waiting.thread->interp) == hook)
        _PyInterpreterState_SetEvalFrameFunc(waiting.thread->interp, hook_below);
}

Waiting* find_waiting(PyThreadState* thread) {
    for (Waiting* waiting = first_waiting; waiting != nullptr; waiting = waiting->next)
        if (waiting->thread == thread) return waiting;
    return nullptr;
}

PyObject* pass_on(PyThreadState* thread, Frame* frame, int throwing) {
    if (hook_below == _PyEval_EvalFrameDefault) return _PyEval_EvalFrameDefault(thread, frame, throwing);
    // A tool that came on top of ours and stayed is below us now, and chains back to us with the same frame.
    static thread_local Frame* passing = nullptr;
    if (passing == frame) return _PyEval_EvalFrameDefault(thread, frame, throwing);
    Frame* outer = passing;
    passing = frame;
    PyObject* result = hook_below(thread, frame, throwing);
    passing = outer;
    return result;
}

PyObject* hook(PyThreadState* thread, Frame* frame, int throwing) {
    Waiting* waiting = find_waiting(thread);
    if (waiting == nullptr || waiting->code != layout::code(frame) || throwing != 0 || !is_at_start(frame))
        return pass_on(thread, frame, throwing);
    unlink(*waiting);
    if (is_being_traced(thread, waiting->code)) return run_untouched(thread, frame);
    return waiting->handler(thread, frame, waiting->context);
}

}  // namespace

PyObject* call_with_hook(PyCodeObject* code, FrameHandler handler, void* context, PyObject* callable,
                         PyObject* const* arguments, std::size_t count_and_flags, PyObject* keyword_names) {
    Waiting waiting{PyThreadState_Get(), code, handler, context};
    Waiting* outer = find_waiting(waiting.thread);
    if (outer != nullptr) [[unlikely]]
        unlink(*outer);
    link(waiting);
    PyObject* result = PyObject_Vectorcall(callable, arguments, count_and_flags, keyword_names);
    if (waiting.is_linked) unlink(waiting);
    if (outer != nullptr) [[unlikely]]
        link(*outer);
    return result;
}

}  // namespace stator::cpython
