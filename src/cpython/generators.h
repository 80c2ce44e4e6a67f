/// Creates generators and coroutines in any state without running their function.
#pragma once

#include <Python.h>

#include <cstddef>
#include <optional>
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

/// Sets the state of a generator that was created above, before anything else can see it, or of one that is suspended.
void fill_generator(PyObject* generator, const GeneratorState& state);

/// Makes a generator that was created above, or one that is suspended, one that has returned. Runs none of its code.
void finish_generator(PyObject* generator);

/// Where a generator is, for one that nobody runs and that handles no exception at its `yield`.
struct GeneratorPlace {
    bool has_started = false;
    bool has_finished = false;  // then nothing else is known
    Offset next;                // the instruction after the `yield`
    std::size_t slots = 0;
    std::size_t stack = 0;
};
/// Null for other generators, and for coroutines.
std::optional<GeneratorPlace> place_of_generator(PyObject* generator);

/// The state of such a generator as a tuple that guards can read: the place as bytes (with a flag for each slot and
/// each value of the stack that tells whether it holds anything), the function, the slots, the value stack, with None
/// for what holds nothing. Only the place of one that has finished. Null for other generators, without an error.
Ref<> generator_state(PyObject* generator);

}  // namespace stator::cpython
