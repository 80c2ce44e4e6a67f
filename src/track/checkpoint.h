/// Non-reentrant activation checkpointing (`torch.utils.checkpoint`). A checkpointed function is
/// recomputed when the first node unpacks one of its saved tensors, in whichever module that node was created; what is
/// recomputed belongs to the module in which the function was called.
#pragma once

#include "cpython/callers.h"
#include "torch/autograd.h"

namespace stator::track {

/// `before_call` is called in the thread that calls a checkpointed function, with the GIL; it must not throw. At most
/// one observer. Both need the GIL; the first throws `PythonError`.
void watch_checkpoints(void (*before_call)());
void stop_watching_checkpoints();

/// The node that runs in this thread. While it recomputes a checkpointed function, it has the birth of that function's
/// call, if that was observed; `frame` and its callers are searched for it. Needs the GIL, and may run
/// Python.
torch_room::RunningNode node_at_work(const cpython::Frame* frame = cpython::running_frame());

}  // namespace stator::track
