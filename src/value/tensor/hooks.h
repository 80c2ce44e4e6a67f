/// Hooks that the program registers on tensors while it is traced.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

void register_tensor_hooks(Handlers& handlers);

}  // namespace stator
