/// Something to iterate over that gives the iterator it was made of, as it is. C code asks what it is given for an
/// iterator; where that is an object of the program's own, its `__iter__` would run a second time.
#pragma once

#include <Python.h>

namespace stator {

/// The class: `Carrier(iterator)`. Borrowed, never freed. Throws `PythonError`.
PyObject* carrier_class();

}  // namespace stator
