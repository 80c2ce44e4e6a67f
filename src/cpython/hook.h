/// Getting hold of a frame: the evaluation hook of PEP 523, on for the nanoseconds between a call and its frame.
#pragma once

#include <Python.h>

#include <memory>

#include "cpython/frame.h"

namespace stator::cpython {

/// Gets the frame at its start and answers for it: the result is the call's. Has to leave the frame in one of the ways
/// of frame.h. May not throw.
using FrameHandler = PyObject* (*)(PyThreadState* thread, Frame* frame, void* context);

/// Calls `callable` by the vectorcall convention. The first frame of this thread that starts `code` goes to the handler
/// instead of the interpreter. By then the hook is off again, so whatever the handler runs is at full speed.
///
/// The handler is not called if the call does not reach the code (binding the arguments failed, say), or while the code
/// `is_being_traced`. Another tool's hook keeps getting every other frame. Calls may be nested and made in any thread:
/// while an inner call is under way, an outer one whose frame did not come yet waits.
PyObject* call_with_hook(PyCodeObject* code, FrameHandler handler, void* context, PyObject* callable,
                         PyObject* const* arguments, std::size_t count_and_flags, PyObject* keyword_names);

/// Whether a frame-evaluation hook is installed that is not ours.
bool has_hook_of_others();

/// Makes a frame of the function and gives it to the handler, to be filled with the state of a call that is under way
/// and entered in the middle. Its parameters are bound to `None`: what is executed from the start is not the function.
/// So the handler is called also where the code `is_being_traced`. Null without a call of the handler only if memory is
/// short.
PyObject* call_primed(PyFunctionObject* function, FrameHandler handler, void* context);

/// Calls the function with `None` for every parameter: for generators, whose call runs nothing of them.
PyObject* call_with_placeholders(PyFunctionObject* function);

/// `generator.send(value)` with the handler in the interpreter's place: the handler gets the generator's frame with the
/// value on its stack, and has to leave it by CPython's own YIELD_VALUE, RETURN_VALUE or an exception. Where somebody
/// watches the execution, the interpreter runs it, unless the frame `is_primed`: to be filled by the handler.
PySendResult send_with_hook(PyObject* generator, PyObject* value, bool is_primed, FrameHandler handler, void* context,
                            PyObject** result);

/// While it lives, every frame of a Python function that C code starts or goes on with in this thread goes to the
/// handler, but for those that the handler's own work starts, and for those that are left by an exception.
class HookCallbacks {
  public:
    HookCallbacks(PyThreadState* thread, FrameHandler handler, void* context);
    ~HookCallbacks();
    HookCallbacks(const HookCallbacks&) = delete;
    HookCallbacks& operator=(const HookCallbacks&) = delete;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace stator::cpython
