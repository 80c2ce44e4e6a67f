/// The frames around the running one.
#pragma once

#include "base/ref.h"

namespace stator::cpython {

/// CPython's `_PyInterpreterFrame`, as in frame.h. Its address is all that may be kept of it: the frame goes when its
/// call ends, and another may come to lie there.
using Frame = ::_PyInterpreterFrame;

/// The Python frame that runs in this thread, null if none does. Needs the interpreter's lock.
const Frame* running_frame();
/// The Python frame that called this one, null if none did.
const Frame* caller_of(const Frame* frame);
/// The name of the function that a frame runs, an interned `str` as a rule.
PyObject* function_name(const Frame* frame);
/// The value of a variable that the function of a frame has from the function around it. Null, with no exception, if it
/// has none of that name.
Ref<> enclosed_variable(const Frame* frame, Borrowed<> name);

}  // namespace stator::cpython
