/// Records traces that failed with an internal error, so that they can be run again. See `stator.recordings`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bytecode/code.h"
#include "capture/report.h"
#include "cpython/frame.h"

namespace stator {

/// If `stator.config.record_errors` is a folder, writes the inputs of a frame's trace to a file there and returns its
/// path; otherwise empty. Never raises.
std::string record_failed_trace(cpython::Frame* frame, bytecode::Index at, const BreakReport& report);

/// The objects in slots that are given as a list with a tuple for each; null where the tuple is empty.
std::vector<PyObject*> held_in_slots(Borrowed<> slots);

/// Runs a recorded trace: what it fails of, as reports have it, or None. `slots` is a list as for `held_in_slots`.
/// Throws PythonError, a ValueError if the recording does not fit.
Ref<> trace_again(PyFunctionObject* function, Borrowed<> slots, bytecode::Index at, std::size_t stack_depth,
                  bool is_generator);

}  // namespace stator
