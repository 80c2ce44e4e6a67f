/// Numbers and sizes that change between calls, as Python has them: a cell (`stator.fake.ModeCell`) creates a fake mode
/// with a `ShapeEnv` when that is first needed, filled with the symbols that are described to it here.
#pragma once

#include <optional>
#include <span>

#include "base/ref.h"
#include "graph/captured.h"
#include "number/expression.h"
#include "number/range.h"

namespace stator::graph {

/// What is known of a number that changes between calls.
struct KnownSymbol {
    const Expression* variable;
    const Expression* resolved;                   // another number that it equals, or itself
    Range range;                                  // of an int
    bool is_marked = false;                       // specializing it is an error
    std::optional<std::int64_t> hint_override{};  // the size that compilers should optimize for
};

/// A number that has no value while tracing: a size of an input, or one that the graph computes.
struct KnownUnbacked {
    const Expression* number;
    const Source* source;  // null if the graph computes the number
    Range range;
    std::optional<std::int64_t> hint_override{};
};

/// Describes all symbols of a trace, in their order, and the relations between them. Nothing if there are no symbols.
/// Throws PythonError.
void describe_symbols(Borrowed<> cell, std::span<const KnownSymbol> symbols,
                      std::span<const Expression* const> relations, std::span<const KnownUnbacked> unbacked = {});

/// Creates example values in the mode of a cell.
ExampleMaker examples_of(Borrowed<> cell);

/// A SymInt or SymFloat, or an int. Throws PythonError.
Ref<> make_number(PyObject* cell, const Expression& number);
/// A constant size, or a nested int, which is a symbol of the cell.
Ref<> make_constant(PyObject* cell, Dim constant);

/// An item of an expression in postfix order, as `stator.symbols` gives it: a number is a constant, `s0` a symbol, and
/// any other word an operation.
Term term_of(PyObject* item);

}  // namespace stator::graph
