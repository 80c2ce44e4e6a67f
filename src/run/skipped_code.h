/// What the program asks not to be captured: frames of a code object (`torch._dynamo.eval_frame.skip_code`; they are
/// still inlined), and the rest of a frame.
#pragma once

#include <Python.h>

namespace stator {

/// Throws PythonError.
void skip(PyCodeObject* code);
bool is_skipped(PyCodeObject* code);

/// Whether it is `torch._dynamo.step_unsupported`: the rest of the frame that calls it runs uncompiled.
bool leaves_frame_uncompiled(PyObject* callable);

}  // namespace stator
