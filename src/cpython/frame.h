/// Real frames: reading them, filling them, executing one of their instructions from C, and resuming them in CPython
/// at any instruction.
///
/// A frame that was received (see hook.h) must be left through exactly one of `run_untouched`, `run`, `run_raising` and
/// `return_at_once`: CPython's interpreter clears it, no code here does. None of the functions may be used afterwards.
#pragma once

#include <Python.h>

#include <span>

#include "base/ref.h"
#include "cpython/offset.h"

namespace stator::cpython {

/// CPython's `_PyInterpreterFrame`; its layout is known in frame.cpp only.
using Frame = ::_PyInterpreterFrame;

PyCodeObject* code_of(const Frame* frame);
PyFunctionObject* function_of(const Frame* frame);
Borrowed<> globals_of(const Frame* frame);
Borrowed<> builtins_of(const Frame* frame);

/// The frame belongs to a generator or coroutine object. Such frames are not entered.
bool is_generator_frame(const Frame* frame);
/// The frame was not started: arguments are in their slots, cells are not created, free variables not copied.
bool is_at_start(const Frame* frame);

/// Locals, cells and free variables, in the order of the code object's `localsplus`; null where unbound. Each non-null
/// one is an owned reference of the frame: replace with `set_slot`, or with the same care.
PyObject** slots(Frame* frame);
int slot_count(const Frame* frame);
void set_slot(Frame* frame, int slot, Ref<> value);

/// Executes the prologue of the code: creates the cells, copies the free variables. The next instruction is RESUME.
/// To be called on a frame `is_at_start`, before it is entered anywhere else. Throws `PythonError`.
void enter_body(Frame* frame);

/// The values on the frame's stack, the top one last. Null is CPython's NULL.
std::span<PyObject*> stack(Frame* frame);
/// Replaces the stack. Takes over one reference to each value.
void set_stack(Frame* frame, std::span<PyObject* const> owned_values);
void push(Frame* frame, Ref<> value);
Ref<> pop(Frame* frame);
/// Takes values off the stack.
void drop(Frame* frame, int count);

/// The next instruction is the one at `offset`, which has to be the start of an instruction, prefixes included. Inside
/// of an `except` or `finally` block the state also includes the exception that is being handled, which is stored in
/// the thread. Set it with `PyErr_SetHandledException`; the end of the block restores the one on the
/// stack.
void resume_at(Frame* frame, Offset offset);

/// The start of its next instruction, prefixes included.
Offset next_offset(const Frame* frame);

/// Runs an unchanged frame as if Stator was not there. Another tool's evaluation hook gets it.
PyObject* run_untouched(PyThreadState* thread, Frame* frame);
/// Resumes with slots, stack and offset as they were set. Always in CPython's own interpreter: another tool's hook
/// would treat the frame as a new one.
PyObject* run(PyThreadState* thread, Frame* frame);
/// Resumes as if the instruction at `offset` (without its prefixes) had raised the exception that is set: with that
/// line in the traceback, in the frame's own handler, or out of the frame. The stack is the one before that
/// instruction.
PyObject* run_raising(PyThreadState* thread, Frame* frame, Offset offset);
/// Leaves the frame with the exception that is set, without adding a line of this frame to its traceback. Only
/// outside of the frame's exception handlers.
PyObject* leave_raising(PyThreadState* thread, Frame* frame, Offset offset);
/// Adds the frame, at the instruction at `offset`, to the traceback of the exception that is set.
void add_to_traceback(PyThreadState* thread, Frame* frame, Offset offset);
/// Leaves the frame with this result. The rest of its stack is dropped. May throw `PythonError` before anything is
/// done.
PyObject* return_at_once(PyThreadState* thread, Frame* frame, Ref<> value);

/// Makes the frame the thread's current one, as if it was executing the instruction at `offset`, for the lifetime of
/// this object. Callees see it with `sys._getframe`, its line and its locals.
class LinkedFrame {
  public:
    LinkedFrame(PyThreadState* thread, Frame* frame, Offset offset);
    ~LinkedFrame();
    LinkedFrame(const LinkedFrame&) = delete;
    LinkedFrame& operator=(const LinkedFrame&) = delete;

  private:
    PyThreadState* thread_;
    Frame* frame_;
};

/// How many more frames of Python functions the recursion limit allows.
int& recursion_remaining(PyThreadState* thread);

/// The frame that the thread is executing, null if none.
Frame* current_frame(PyThreadState* thread);
/// The frame behind a frame object.
Frame* frame_of(PyFrameObject* object);

}  // namespace stator::cpython
