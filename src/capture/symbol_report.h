/// What a trace made of the numbers and sizes that change between calls, in words: where each symbol came from, its
/// range, and the line of the program that made a constant of it.
#pragma once

#include <string>
#include <vector>

#include "bytecode/instruction.h"
#include "cpython/frame.h"
#include "trace/trace.h"

namespace stator {

/// `s0 is L['x'].size()[0]: 5 in this call, at least 2; changed between calls`, one for each symbol.
std::vector<std::string> print_symbols(const Trace& trace);

/// Raises an error if a size was specialized that the user has marked as dynamic, or if not all of its marked range is
/// allowed. Throws PythonError.
void expect_dynamic(const Trace& trace);

/// Writes the symbols to the logger "stator", if there are any.
void log_symbols(const Trace& trace, cpython::Frame* frame, bytecode::Index at);

}  // namespace stator
