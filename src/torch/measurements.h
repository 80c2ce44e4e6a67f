/// Measurements for bench/executor.py and tests.
#pragma once

#include <Python.h>

#include <cstddef>
#include <string_view>

#include "base/ref.h"

namespace stator::torch_room {

/// Seconds of a loop in C++ that calls the CPU kernel of an operator directly, `count` times, each time with the result
/// of the call before as first argument. Negative if the name is not one of those that it knows.
double time_kernel(std::string_view name, Borrowed<> first, Borrowed<> second, std::size_t count);

/// The most bytes of CPU memory that PyTorch has allocated at a time while `call()` runs, above those before. Throws
/// PythonError.
std::ptrdiff_t peak_memory(Borrowed<> call);

}  // namespace stator::torch_room
