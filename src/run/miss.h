/// Handles a frame that no entry matches.
#pragma once

#include "run/cache.h"

namespace stator {

/// Captures it, or finds an entry that another callable has captured. The entry is added to `point`, and its guards
/// have just held. Null if the frame runs uncompiled: because of the stance or the recompile limit, or because nothing
/// could be captured. Throws PythonError.
Shared<Entry> capture_missing(EntryCache& cache, EntryPoint& point, cpython::Frame* frame, bytecode::Index at,
                              bool is_main, const Ref<>& forced_backend);

/// Reads what decides whether a frame is captured, which takes longer the first time.
void rehearse_miss();

}  // namespace stator
