/// The layout of a frame, with the same names for every version. For the files of this room only.
#pragma once

#include <Python.h>

#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include "cpython/frame.h"

namespace stator::cpython::layout {

#if PY_VERSION_HEX >= 0x030D0000

inline PyCodeObject* code(const Frame* frame) {
    return reinterpret_cast<PyCodeObject*>(frame->f_executable);
}
inline PyObject* function(const Frame* frame) {
    return frame->f_funcobj;
}
inline Frame*& current(PyThreadState* thread) {
    return thread->current_frame;
}
/// `instr_ptr` is the instruction that is being executed, or the next one: one field for both.
inline void set_next(Frame* frame, _Py_CODEUNIT* unit) {
    frame->instr_ptr = unit;
}
inline void set_executing(Frame* frame, _Py_CODEUNIT* unit) {
    frame->instr_ptr = unit;
}
inline _Py_CODEUNIT* next(const Frame* frame) {
    return frame->instr_ptr;
}

#else

inline PyCodeObject* code(const Frame* frame) {
    return frame->f_code;
}
inline Frame*& current(PyThreadState* thread) {
    return thread->cframe->current_frame;
}
/// `prev_instr` is the unit before the next instruction; while an instruction is executed, that instruction.
inline void set_next(Frame* frame, _Py_CODEUNIT* unit) {
    frame->prev_instr = unit - 1;
}
inline void set_executing(Frame* frame, _Py_CODEUNIT* unit) {
    frame->prev_instr = unit;
}
inline _Py_CODEUNIT* next(const Frame* frame) {
    return frame->prev_instr + 1;
}

#if PY_VERSION_HEX >= 0x030C0000
inline PyObject* function(const Frame* frame) {
    return frame->f_funcobj;
}
#else
inline PyObject* function(const Frame* frame) {
    return reinterpret_cast<PyObject*>(frame->f_func);
}
#endif

#endif

inline _Py_CODEUNIT* first_unit(const Frame* frame) {
    return reinterpret_cast<_Py_CODEUNIT*>(code(frame)->co_code_adaptive);
}

}  // namespace stator::cpython::layout
