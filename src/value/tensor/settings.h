/// Models of functions that change the settings of PyTorch.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

void register_settings(Handlers& handlers);

}  // namespace stator
