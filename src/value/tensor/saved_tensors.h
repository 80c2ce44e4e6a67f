/// `torch.autograd.graph.saved_tensors_hooks` and `save_on_cpu`, entered and left inside of a captured region.
#pragma once

#include "value/tracer.h"

namespace stator {

/// Breaks the graph where such hooks are entered: what follows saves other tensors than the program does uncompiled.
void expect_no_saved_tensors_hooks(Tracer& tracer, const char* what);

}  // namespace stator
