/// Lazy modules: they create their parameters in their first call.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

/// A call of one in a trace initializes the real module and starts the capture again.
void register_lazy_modules(Handlers& handlers);

}  // namespace stator
