/// Generator objects in any state, made without running their function.
#pragma once

#include <Python.h>

#include <span>

#include "base/ref.h"
#include "cpython/offset.h"

namespace stator::cpython {

/// Whether `close` gives what the generator returned. Before, it gave None.
inline constexpr bool kCloseGivesResult = PY_VERSION_HEX >= 0x030D0000;

/// A generator of the function that did not start. Its parameters are bound to `None`, to be replaced: a generator may
/// be among its own variables, so it is made before they are there. Throws `PythonError`.
Ref<> make_generator(PyFunctionObject* function);

/// What a generator's frame holds while it waits.
struct GeneratorState {
    /// All slots (see frame.h), cells as cells; null where unbound. Borrowed.
    std::span<PyObject* const> slots;
    /// The value stack, the top last; null for CPython's NULL. Borrowed.
    std::span<PyObject* const> stack;
    /// The exception that is handled where it waits; may be null.
    Borrowed<> handled = nullptr;
    /// The YIELD_VALUE at which it waits; invalid if it did not start.
    Offset yielded;
};

/// Puts a generator that was made above into a state. To be done once, before anybody else sees it.
void fill_generator(PyObject* generator, const GeneratorState& state);

/// Ends a generator that was made above and not filled: as one that has returned.
void finish_generator(PyObject* generator);

}  // namespace stator::cpython
