/// Ints and floats that are inputs of a graph, before and after the backend.
#pragma once

#include <span>
#include <vector>

#include "guard/guard.h"

namespace stator {

/// Stores the ranges of such inputs in the `__dict__` of the graph module, for the backend: `_stator_ranges`, `{number
/// of the input: (least, most)}`, None for a float. Nothing if there are none. Throws PythonError.
void describe_numbers(Borrowed<> module, std::span<Source* const> inputs, std::span<const Guard> guards);

/// After the backend: the positions of inputs that it specialized on, from `_stator_burned_in`. Throws PythonError.
std::vector<std::size_t> burned_in(Borrowed<> module);

}  // namespace stator
