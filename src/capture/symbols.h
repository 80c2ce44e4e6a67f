/// Symbols at the hand-off to a backend: what the backend is told about numbers and sizes that change between calls,
/// and what it assumed about them on top. The other side is stator.symbols.
#pragma once

#include <string>
#include <vector>

#include "base/ref.h"
#include "graph/symbol_cell.h"
#include "guard/program.h"
#include "trace/trace.h"

namespace stator {

/// Describes the symbols of a trace and the relations between them to the cell that will create the fake mode of the
/// graph module. Nothing if there are no symbols. Throws PythonError.
void describe_symbols(Borrowed<> cell, const Trace& trace);

struct BackendAssumptions {
    std::vector<BackendCondition> conditions;
    /// Symbols that the backend can't have: the capture starts again with constants in their place.
    std::vector<std::size_t> rejected;
    std::string failure;  // the error of the backend on them, if it raised one
    /// Symbols that have only one value left.
    std::vector<std::size_t> fixed;
};

/// What the backend assumed. Throws PythonError.
BackendAssumptions assumptions_of(Borrowed<> module);

/// The error for a size that the user has marked as dynamic and that was specialized.
[[noreturn]] void raise_constraint_violation(const std::string& text);

}  // namespace stator
