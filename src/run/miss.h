/// A frame for which no entry fits.
#pragma once

#include "run/cache.h"

namespace stator {

/// Captures it, or finds that it was captured for another instance. The entry is added to `point`, and its guards have
/// just held; null where the frame runs uncompiled: the stance wants that, the recompile limit is reached, nothing
/// could be captured. Throws PythonError.
Shared<Entry> capture_missing(EntryCache& cache, EntryPoint& point, cpython::Frame* frame, bytecode::Index at,
                              bool is_main, const Ref<>& forced_backend);

}  // namespace stator
