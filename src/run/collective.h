/// Ranks of a process group agree on what they compile. See `stator.collectives`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "guard/guard.h"
#include "run/report.h"

namespace stator {

/// Where `stator.config.enable_compiler_collectives` asks for it: tells the other ranks what was captured, and gives
/// the places (by `path`) of numbers that differ between them. Throws PythonError where they differ otherwise.
std::vector<std::string> run_compiler_collective(Borrowed<> module, std::span<PyObject* const> inputs,
                                                 std::span<const Guard> guards, const CaptureReport& report,
                                                 const BreakReport* end);

}  // namespace stator
