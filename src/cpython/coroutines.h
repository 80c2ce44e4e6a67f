/// Real coroutines, and what `await`, `async for` and `async with` do with objects.
#pragma once

#include <Python.h>

#include "base/ref.h"

namespace stator::cpython {

/// Flags of the code of functions whose calls make coroutines, asynchronous generators, or generators that can be
/// awaited.
inline constexpr int kAsynchronousCode = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
/// Flags of the code of functions whose calls run nothing of their body.
inline constexpr int kSuspendedCode = CO_GENERATOR | kAsynchronousCode;

/// Whether `send` resumes a frame of the object: a generator or a coroutine.
inline bool is_resumable(PyObject* object) {
    return PyGen_CheckExact(object) || PyCoro_CheckExact(object);
}
/// Whether a coroutine is suspended in an `await`, so that it can't be awaited once more.
bool is_awaiting(PyObject* coroutine);

// What the instructions do. All return an empty reference if the object does not support it: nothing has happened then,
// and CPython raises the error. They throw PythonError.

/// The iterator of `await object`.
Ref<> awaited(PyObject* object);
/// The asynchronous iterator of `async for`.
Ref<> asynchronous_iterator(PyObject* object);
/// The iterator of an `await` for its next item.
Ref<> awaited_next(PyObject* iterator);

/// The class of what `athrow` and `aclose` of asynchronous generators return.
PyTypeObject* asynchronous_throw_class();

// Python functions for plans, of an asynchronous generator and of what is sent to it. Borrowed, never freed.

/// What `asend` returns.
PyObject* step_function();
/// The same after its first `send`, when the generator waits for something else.
PyObject* started_step_function();

}  // namespace stator::cpython
