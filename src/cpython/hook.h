/// The frame evaluation hook of PEP 523, installed for the nanoseconds between a call and the start of its frame.
#pragma once

#include <Python.h>

#include <memory>

#include "cpython/frame.h"

namespace stator::cpython {

/// Gets the frame at its start and returns the result of the call. Has to leave the frame in one of the ways
/// of frame.h. May not throw.
using FrameHandler = PyObject* (*)(PyThreadState* thread, Frame* frame, void* context);

/// Calls `callable` by the vectorcall convention. The first frame of this thread that starts `code` goes to the handler
/// instead of the interpreter. By then the hook is off again, so whatever the handler runs is at full speed.
///
/// The handler is not called if the call does not reach the code (for example if binding the arguments failed), or
/// while a debugger steps through the code. Profilers and coverage receive the call event before the handler is called.
/// Another tool's hook still gets every other frame. Calls may be nested and made in any thread: during an inner call,
/// an outer one whose frame has not started yet stays pending.
PyObject* call_with_hook(PyCodeObject* code, FrameHandler handler, void* context, PyObject* callable,
                         PyObject* const* arguments, std::size_t count_and_flags, PyObject* keyword_names);

/// Whether a frame-evaluation hook is installed that is not ours.
bool has_hook_of_others();

/// The function of that hook; null if there is none.
const void* hook_of_others();

/// Whether a call or a `HookCallbacks` is pending in this thread.
bool is_hook_waiting();

/// Creates a frame of the function and passes it to the handler, which fills it with the state of a call and
/// resumes it in its middle. Its parameters are bound to `None`, so the frame must not run from the start.
/// Therefore the handler is called also while a debugger steps through the code, and tools receive no call event. Null
/// without a call of the handler only if memory is short.
PyObject* call_primed(PyFunctionObject* function, FrameHandler handler, void* context);

/// Calls the function with `None` for every parameter: for generator functions, whose call runs none of their code.
PyObject* call_with_placeholders(PyFunctionObject* function);

/// `generator.send(value)`, of a generator or a coroutine, with the handler instead of the interpreter: the handler
/// gets the generator's frame with the value on its stack, and has to leave it by CPython's own YIELD_VALUE,
/// RETURN_VALUE or an exception. If a tool observes the execution, profilers included, the interpreter runs it, unless
/// the frame `is_primed`: to be filled by the handler.
PySendResult send_with_hook(PyObject* generator, PyObject* value, bool is_primed, FrameHandler handler, void* context,
                            PyObject** result);

/// While it lives, every frame of a Python function that C code starts or resumes in this thread goes to the
/// handler, except those that the handler itself starts, and those that are left by an exception.
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
