/// Creates tracebacks of exceptions that were raised in inlined frames.
#pragma once

#include <Python.h>

#include "base/ref.h"
#include "cpython/offset.h"

namespace stator::cpython {

/// A frame object of the code, at the instruction at `offset`. It has no caller, and its variables are
/// unbound. Throws `PythonError`.
Ref<> make_frame_object(PyCodeObject* code, PyObject* globals, Offset offset);

/// An entry of a traceback: the instruction at `offset` of the frame, then `next`, which may be null. Throws
/// `PythonError`.
Ref<> make_traceback(PyFrameObject* frame, Offset offset, Borrowed<> next);

/// The line of an instruction.
int line_at(PyCodeObject* code, Offset offset);

}  // namespace stator::cpython
