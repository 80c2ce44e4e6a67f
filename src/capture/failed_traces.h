/// Records traces that failed with an internal error, so that they can be run again. See `stator.recordings`.
#pragma once

#include <cstddef>
#include <string>

#include "bytecode/code.h"
#include "capture/report.h"
#include "cpython/frame.h"

namespace stator {

/// If `stator.config.record_errors` is a folder, writes the inputs of a frame's trace to a file there and returns its
/// path; otherwise empty. Never raises.
std::string record_failed_trace(cpython::Frame* frame, bytecode::Index at, const BreakReport& report);

/// Runs a recorded trace: what it fails of, as reports have it, or None. `slots` is a list with a tuple for each, and
/// the object in it where there is one. Throws PythonError, a ValueError if the recording does not fit.
Ref<> trace_again(PyFunctionObject* function, Borrowed<> slots, bytecode::Index at, std::size_t stack_depth,
                  bool is_generator);

}  // namespace stator
