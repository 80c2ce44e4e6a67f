#include "cpython/frame.h"

#include <iterator>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/python_error.h"
#include "cpython/code_object.h"
#include "cpython/frame_layout.h"
#include "cpython/opcodes.h"
#include "cpython/tracing.h"

namespace stator::cpython {

PyCodeObject* code_of(const Frame* frame) {
    return layout::code(frame);
}
PyFunctionObject* function_of(const Frame* frame) {
    return reinterpret_cast<PyFunctionObject*>(layout::function(frame));
}
Borrowed<> globals_of(const Frame* frame) {
    return frame->f_globals;
}
Borrowed<> builtins_of(const Frame* frame) {
    return frame->f_builtins;
}
bool is_generator_frame(const Frame* frame) {
    return frame->owner == FRAME_OWNED_BY_GENERATOR;
}
bool is_at_start(const Frame* frame) {
    return frame->owner == FRAME_OWNED_BY_THREAD && layout::next(frame) == layout::first_unit(frame);
}
PyObject** slots(Frame* frame) {
    return frame->localsplus;
}
int slot_count(const Frame* frame) {
    return layout::code(frame)->co_nlocalsplus;
}
Frame* frame_of(PyFrameObject* object) {
    return object->f_frame;
}
Frame* current_frame(PyThreadState* thread) {
    return layout::current(thread);
}

void set_slot(Frame* frame, int slot, Ref<> value) {
    // The old value is freed last: its destructor may look at the frame.
    Ref<> old = Ref<>::steal(std::exchange(frame->localsplus[slot], value.release()));
}

void enter_body(Frame* frame) {
    STATOR_CHECK(is_at_start(frame), "cells are created once, at the start of a frame");
    PyCodeObject* code = code_of(frame);
    int arg = 0;
    for (CodeUnit unit : code_units(code)) {
        arg = arg << 8 | unit.arg;
        switch (real_op(unit.opcode)) {
            case RealOp::ExtendedArg:
                continue;
            case RealOp::MakeCell: {
                Ref<> cell = checked(PyCell_New(frame->localsplus[arg]));
                set_slot(frame, arg, std::move(cell));
                break;
            }
            case RealOp::CopyFreeVars: {
                PyObject* closure = function_of(frame)->func_closure;
                int first = code->co_nlocalsplus - arg;
                for (int i = 0; i < arg; ++i) set_slot(frame, first + i, Ref<>::share(PyTuple_GET_ITEM(closure, i)));
                break;
            }
            default:
                resume_at(frame, body_start(code));
                return;
        }
        arg = 0;
    }
}

std::span<PyObject*> stack(Frame* frame) {
    int base = slot_count(frame);
    return {frame->localsplus + base, static_cast<std::size_t>(frame->stacktop - base)};
}

void set_stack(Frame* frame, std::span<PyObject* const> owned_values) {
    STATOR_DCHECK(static_cast<int>(owned_values.size()) <= stack_size(code_of(frame)),
                  "the value stack is not that deep");
    std::span<PyObject*> old = stack(frame);
    // Destructors may look at the frame, so values are freed after the frame is consistent again.
    PyObject* here[8];
    std::unique_ptr<PyObject*[]> allocated;
    PyObject** dropped = here;
    if (old.size() > std::size(here)) {
        allocated = std::make_unique_for_overwrite<PyObject*[]>(old.size());
        dropped = allocated.get();
    }
    const std::size_t count = old.size();
    for (std::size_t i = 0; i < count; ++i) dropped[i] = old[i];
    for (std::size_t i = 0; i < owned_values.size(); ++i) old.data()[i] = owned_values[i];
    frame->stacktop = slot_count(frame) + static_cast<int>(owned_values.size());
    for (std::size_t i = 0; i < count; ++i) Py_XDECREF(dropped[i]);
}

void push(Frame* frame, Ref<> value) {
    STATOR_DCHECK(static_cast<int>(stack(frame).size()) < stack_size(code_of(frame)), "the value stack is full");
    frame->localsplus[frame->stacktop++] = value.release();
}

Ref<> pop(Frame* frame) {
    STATOR_DCHECK(!stack(frame).empty(), "the value stack is empty");
    return Ref<>::steal(frame->localsplus[--frame->stacktop]);
}

void drop(Frame* frame, int count) {
    // A destructor may look at the frame: it has to be consistent each time.
    for (; count > 0; --count) pop(frame);
}

Offset next_offset(const Frame* frame) {
    return Offset::of_unit(static_cast<int>(layout::next(frame) - layout::first_unit(frame)));
}

void resume_at(Frame* frame, Offset offset) {
    layout::set_next(frame, layout::first_unit(frame) + offset.unit());
}

PyObject* run_untouched(PyThreadState* thread, Frame* frame) {
    if (was_call_reported(frame)) [[unlikely]]
        return run_after_call_event(thread, frame);
    return _PyInterpreterState_GetEvalFrameFunc(thread->interp)(thread, frame, 0);
}

PyObject* run(PyThreadState* thread, Frame* frame) {
    return _PyEval_EvalFrameDefault(thread, frame, 0);
}

int& recursion_remaining(PyThreadState* thread) {
#if PY_VERSION_HEX >= 0x030C0000
    return thread->py_recursion_remaining;
#else
    return thread->recursion_remaining;
#endif
}

LinkedFrame::LinkedFrame(PyThreadState* thread, Frame* frame, Offset offset) : thread_(thread), frame_(frame) {
    layout::set_executing(frame, layout::first_unit(frame) + offset.unit());
    frame->previous = layout::current(thread);
    layout::current(thread) = frame;
}

LinkedFrame::~LinkedFrame() {
    layout::current(thread_) = frame_->previous;
}

}  // namespace stator::cpython
