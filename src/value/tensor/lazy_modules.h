/// Lazy modules, which create their parameters in their first call.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

/// Calling one in a trace initializes the real module and restarts the trace.
void register_lazy_modules(Handlers& handlers);

}  // namespace stator
