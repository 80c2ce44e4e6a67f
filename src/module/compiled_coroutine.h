/// What a call of a compiled coroutine function returns: `stator._C.Coroutine`.
#pragma once

#include <Python.h>

#include "module/compiled_object.h"

namespace stator {

/// The coroutine of a call, each step of which is captured. It passes for a coroutine: for its class, attributes and
/// representation, and wherever one is awaited. Null if the call has failed; other objects stay what they are.
PyObject* with_captured_steps(CompiledObject* compiled, PyObject* coroutine);

}  // namespace stator
