/// Lazy modules: those that make their parameters when they are first called.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

/// Calling one in a trace initialises it for real, and starts the trace again.
void register_lazy_modules(Handlers& handlers);

}  // namespace stator
