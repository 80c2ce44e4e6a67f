/// A quick comparison with the modes of this thread, for what is asked at each node of a graph.
#pragma once

#include "torch/global_state.h"

namespace stator::torch_room {

/// Whether autocast is off in the thread, as it is in `modes`, and its other modes are these. The dtypes of autocast
/// are not compared: reading them takes longer than all the rest.
bool are_on_without_autocast(const Modes& modes);

}  // namespace stator::torch_room
