/// Models of functions and classes of Python's library.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

void register_named_tuples(Handlers& handlers);
void register_context_variables(Handlers& handlers);
void register_config_patches(Handlers& handlers);
void register_questions(Handlers& handlers);
void register_warnings(Handlers& handlers);

}  // namespace stator
