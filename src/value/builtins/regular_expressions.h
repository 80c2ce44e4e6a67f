/// Regular expressions (`re`) over texts that are known while tracing.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

void register_regular_expressions(Handlers& handlers);

}  // namespace stator
