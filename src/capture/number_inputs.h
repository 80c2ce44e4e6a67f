/// Ints and floats that are inputs of a graph, on the way to a backend and back.
#pragma once

#include <span>
#include <vector>

#include "guard/guard.h"

namespace stator {

/// Tells the graph module, and by it the backend, between which bounds such inputs will be: `_stator_ranges` in its
/// `__dict__`, `{number of the input: (least, most)}`, None of a float. Nothing where there are none. Throws
/// PythonError.
void describe_numbers(Borrowed<> module, std::span<Source* const> inputs, std::span<const Guard> guards);

/// After the backend: the positions of inputs that what it compiled takes for constants, from `_stator_burned_in`.
/// Throws PythonError.
std::vector<std::size_t> burned_in(Borrowed<> module);

}  // namespace stator
