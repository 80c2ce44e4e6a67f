/// Creates generators and coroutines in any state without running their function.
#pragma once

#include <Python.h>

#include <span>

#include "base/ref.h"
#include "cpython/offset.h"

namespace stator::cpython {

/// Whether `close` returns the value that the generator returned. In older versions it returns None.
inline constexpr bool kCloseGivesResult = PY_VERSION_HEX >= 0x030D0000;

/// An unstarted generator or coroutine of the function. Its parameters are bound to `None`, to be replaced: a generator
/// may be referenced by its own variables, so it is created before them. Throws `PythonError`.
Ref<> make_generator(PyFunctionObject* function);

/// The contents of a suspended generator's frame.
struct GeneratorState {
    /// All slots (see frame.h), cells as cells; null where unbound. Borrowed.
    std::span<PyObject* const> slots;
    /// The value stack, the top last; null for CPython's NULL. Borrowed.
    std::span<PyObject* const> stack;
    /// The exception that is being handled where it is suspended; may be null.
    Borrowed<> handled = nullptr;
    /// The YIELD_VALUE at which it is suspended; invalid if it did not start.
    Offset yielded;
};

/// Sets the state of a generator that was created above. To be called once, before anything else can see it.
void fill_generator(PyObject* generator, const GeneratorState& state);

/// Makes a generator that was created above, and not filled, one that has returned.
void finish_generator(PyObject* generator);

}  // namespace stator::cpython
