/// Lazy modules: those that make their parameters when they are first called.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

void register_lazy_modules(Handlers& handlers);

/// Whether a module was initialised in this thread since this was last asked: then the trace that met it knows things
/// that are no longer true, and is to be done again.
bool took_initialised_module();

}  // namespace stator
