/// Process groups, and collectives of `torch.distributed` that write to their tensors. PyTorch has functional forms of
/// these, which are operations of a graph, and a table that says which belong together.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

void register_collectives(Handlers& handlers);

}  // namespace stator
