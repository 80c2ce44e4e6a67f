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

/// Runs a recorded trace and returns the break as a dict, as in reports, or None. `slots` is a list of tuples with the
/// object, or empty. Throws InternalError if the recording does not match, PythonError.
Ref<> trace_again(PyFunctionObject* function, Borrowed<> slots, bytecode::Index at, std::size_t stack_depth,
                  bool is_generator);

}  // namespace stator
