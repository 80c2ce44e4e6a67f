/// Hooks that the program registers on tensors while it is traced.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

void register_tensor_hooks(Handlers& handlers);

/// Which closure variables of a function that the trace has made an object outside of the trace may have: those that
/// came from outside, or those too that hold a constant and are not assigned again.
enum class Cells : std::uint8_t { Outside, Settled };
/// The hook as an object that the graph can hold; empty if it captures values that are not constants.
Ref<> real_hook(Tracer& tracer, Value* hook, Cells cells = Cells::Outside);
/// Whether a copy can replace the value.
bool is_immutable_constant(Tracer& tracer, Value* value);

}  // namespace stator
