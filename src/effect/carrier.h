/// An iterable whose `__iter__` returns a given iterator. C functions call `iter` on their argument; on an iterator of
/// the program that would run its `__iter__` a second time.
#pragma once

#include <Python.h>

namespace stator {

/// The class: `Carrier(iterator)`. Borrowed, never freed. Throws `PythonError`.
PyObject* carrier_class();

}  // namespace stator
