/// Functions that are checkpointed with saved tensors (`torch.utils.checkpoint`, not re-entrant). Such a function is
/// computed again by the first node that asks for one of its tensors, wherever that node was made; what is computed
/// belongs where the function was called.
#pragma once

#include "cpython/callers.h"
#include "torch/autograd.h"

namespace stator::track {

/// `before_call` is told, in the thread that calls one, with the interpreter's lock; it must not throw. There is one
/// watch at most. Both need the interpreter's lock; the first throws `PythonError`.
void watch_checkpoints(void (*before_call)());
void stop_watching_checkpoints();

/// The node that runs in this thread. While it computes such a function again, it has the birth of that function's
/// call, if that was told; the work is that of `frame` and those around. Needs the interpreter's lock, and may run
/// Python.
torch_room::RunningNode node_at_work(const cpython::Frame* frame = cpython::running_frame());

}  // namespace stator::track
