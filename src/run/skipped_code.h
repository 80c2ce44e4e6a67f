/// Code objects whose frames are never captured: `torch._dynamo.eval_frame.skip_code`. They are still inlined.
#pragma once

#include <Python.h>

namespace stator {

/// Throws PythonError.
void skip(PyCodeObject* code);
bool is_skipped(PyCodeObject* code);

}  // namespace stator
