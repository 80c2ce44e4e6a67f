/// Who is tracking now, and the hooks by which PyTorch tells them: two that it calls around every module call, and an
/// observer of the nodes that autograd runs. They are there only while somebody tracks.
#pragma once

#include <memory>

#include "track/tracker.h"

namespace stator::track {

/// Both need the interpreter's lock. The first throws `PythonError`.
void activate(std::shared_ptr<Tracker> tracker, std::shared_ptr<Tracking> tracking);
void deactivate(const Tracking* tracking);

}  // namespace stator::track
