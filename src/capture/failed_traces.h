/// Traces that failed by an error of Stator's own, kept so that they can be run again. See `stator.recordings`.
#pragma once

#include <cstddef>
#include <string>

#include "bytecode/code.h"
#include "capture/report.h"
#include "cpython/frame.h"

namespace stator {

/// Where `stator.config.record_errors` names a folder: writes there what the trace of a frame began with, and says
/// where that is; empty otherwise. Never raises.
std::string record_failed_trace(cpython::Frame* frame, bytecode::Index at, const BreakReport& report);

/// Runs a recorded trace: what it fails of, as reports have it, or None. `slots` is a list with a tuple for each, and
/// the object in it where there is one. Throws PythonError, a ValueError if the recording does not fit.
Ref<> trace_again(PyFunctionObject* function, Borrowed<> slots, bytecode::Index at, std::size_t stack_depth,
                  bool is_generator);

}  // namespace stator
