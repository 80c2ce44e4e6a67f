/// Whether somebody watches the execution: a debugger, a profiler, coverage. Such frames are left to CPython, so that
/// every line and call is seen.
#pragma once

#include <Python.h>

namespace stator::cpython {

/// `sys.settrace` or `sys.setprofile` is active on this thread, or a tool of `sys.monitoring` (3.12) listens to
/// everything.
bool is_being_traced(PyThreadState* thread);

/// As above, or a tool of `sys.monitoring` listens to this code object, or the code has to start once in the ordinary
/// way because tools came or went since its last start.
bool is_being_traced(PyThreadState* thread, PyCodeObject* code);

}  // namespace stator::cpython
