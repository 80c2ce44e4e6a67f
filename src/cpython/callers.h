/// The frames around the running one.
#pragma once

#include "base/ref.h"

namespace stator::cpython {

/// CPython's `_PyInterpreterFrame`, as in frame.h. Only its address may be kept: the frame is freed when its
/// call ends, and another may be allocated there.
using Frame = ::_PyInterpreterFrame;

/// The Python frame that runs in this thread, null if none does. Needs the GIL.
const Frame* running_frame();
/// The Python frame that called this one, null if none did.
const Frame* caller_of(const Frame* frame);
/// The name of the function that a frame runs, an interned `str` as a rule.
PyObject* function_name(const Frame* frame);
/// The value of a closure variable of a frame's function. Null, with no exception, if it
/// has none of that name.
Ref<> enclosed_variable(const Frame* frame, Borrowed<> name);

}  // namespace stator::cpython
