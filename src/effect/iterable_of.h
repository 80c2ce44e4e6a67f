/// An iterable whose `__iter__` returns a given iterator. C functions call `iter` on their argument; on an iterator of
/// the program that would run its `__iter__` a second time.
#pragma once

#include <Python.h>

namespace stator {

/// The class: `IterableOf(iterator)`. Borrowed, never freed. Throws `PythonError`.
PyObject* iterable_of_class();

}  // namespace stator
