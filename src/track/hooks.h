/// The active trackers, and the hooks that they share: two global hooks that PyTorch calls around every module call,
/// and an observer of the nodes that autograd runs. They are installed only while a tracker is active.
#pragma once

#include <memory>

#include "track/tracker.h"

namespace stator::track {

/// Both need the GIL. The first throws `PythonError`.
void activate(std::shared_ptr<Tracker> tracker, std::shared_ptr<Tracking> tracking);
void deactivate(const Tracking* tracking);

}  // namespace stator::track
