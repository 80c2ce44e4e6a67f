/// What the instructions of generators and of coroutines share.
#pragma once

#include "trace/interpreter.h"
#include "value/kinds/async_step.h"

namespace stator {

/// Whether a suspended generator waits for another one in `yield from` or `await`.
bool is_delegating(const GeneratorValue* generator);

inline PyTypeObject* stop_async_iteration() {
    return reinterpret_cast<PyTypeObject*>(PyExc_StopAsyncIteration);
}

namespace handlers {

/// `Send` to a step of an asynchronous generator.
void send_to_step(Interpreter& t, BytecodeFrame& frame, AsyncStepValue* step, Value* value);

}  // namespace handlers

}  // namespace stator
