/// `torch.compiler.substitute_in_graph`: Python functions that the program traces in place of C functions.
#pragma once

#include "base/ref.h"

namespace stator {

/// The function that the program has registered in place of this C function; empty if there is none. Those that PyTorch
/// registers itself don't count: what they stand in for has models here.
Ref<> substitute_of(Borrowed<> function);

}  // namespace stator
