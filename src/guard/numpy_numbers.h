/// numpy scalars (`numpy.float64(2)`): immutable C objects with the number after the object header.
#pragma once

#include <cstddef>

#include "base/ref.h"

namespace stator {

enum class NumpyNumber : unsigned char {
    None,  // not a NumPy scalar
    Bool,
    Integer,
    Double,  // also a Python float
    OtherFloat,
};

/// For exactly these classes, not for subclasses. Does not call numpy.
NumpyNumber numpy_number(PyTypeObject* type);
inline bool is_numpy_number(Borrowed<> object) {
    return numpy_number(Py_TYPE(object.get())) != NumpyNumber::None;
}

/// Whether two objects are of one such class and hold the same bits.
bool same_numpy_number(Borrowed<> object, Borrowed<> expected);

}  // namespace stator
