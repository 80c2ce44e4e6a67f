/// The operators of Python's C API, by the numbers that `BINARY_OP` uses: in-place ones follow the others, in the same
/// order.
#pragma once

#include <Python.h>

#include <cstddef>

namespace stator::cpython {

inline constexpr std::size_t kFirstInPlace = 13;

PyObject* binary_operation(std::size_t number, PyObject* left, PyObject* right);

/// What a function of module `operator` that takes two arguments does with them; null for any other object.
binaryfunc function_behind(PyObject* operator_function);

}  // namespace stator::cpython
