/// Where CPython calls Stator: C++ exceptions end here and become Python ones.
#pragma once

#include <exception>
#include <type_traits>

#include "base/python_error.h"

namespace stator {

/// What `body` returns, a `Ref` as the new reference that it owns, or null with the error indicator set. A body that
/// returns nothing gives true, or false with the error indicator set.
template <class Body>
[[gnu::always_inline]] inline auto at_boundary(const Body& body) {
    using Result = decltype(body());
    using Answer = std::conditional_t<std::is_void_v<Result>, bool, PyObject*>;
    try {
        if constexpr (std::is_void_v<Result>) {
            body();
            return true;
        } else if constexpr (std::is_same_v<Result, PyObject*>) {
            return body();
        } else {
            return static_cast<PyObject*>(body().release());
        }
    } catch (const PythonError&) {
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return Answer{};
}

}  // namespace stator
