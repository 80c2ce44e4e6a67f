/// `torch.compile(function)` inside of a compiled function.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

void register_nested_compile(Handlers& handlers);

}  // namespace stator
