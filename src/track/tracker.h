/// A tracker: a context manager that calls callbacks. All active trackers share one
/// pair of module hooks and one observer of autograd, which are installed only while there is a tracker.
///
/// A thread that entered trackers is observed by those only, so that threads with a tracker each do not mix. A
/// thread that entered none is observed by all. A backward pass is observed by the trackers that know its nodes.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "track/tracking.h"

namespace stator::track {

class Tracker : public std::enable_shared_from_this<Tracker> {
  public:
    /// Called with a name, the module or `None`, and whether it is the module's backward. Null for none.
    Ref<> on_enter, on_leave;

    bool is_active() const { return tracking_ != nullptr; }
    /// Shared with the readers of its paths: leaving the context drops it.
    const std::shared_ptr<Tracking>& tracking() const { return tracking_; }
    const std::shared_ptr<Names>& names() const { return names_; }

    /// These throw `PythonError`.
    void enter();
    void exit();

    /// Called by the hooks. They throw what a callback raises.
    void begin(Borrowed<> module);
    void end(Borrowed<> module);
    /// A node is about to run; only for trackers with callbacks.
    void move_backward(int backward, const Tracking::NodeRun& run);
    bool calls_back() const { return on_enter || on_leave; }

  private:
    /// The modules whose backward a pass is in, without those around the whole pass.
    struct OpenBackward {
        std::uint64_t thread;
        const Path* around;
        std::vector<const Path*> open;  // the outermost first
    };

    void end_backward(int backward);
    void end_failed_backwards();
    /// Owns what it is called with, because the callback may do anything.
    static void call_back(Ref<> callback, std::shared_ptr<Tracking> tracking, const Path* path, bool is_backward);

    std::shared_ptr<Names> names_ = std::make_shared<Names>();
    std::shared_ptr<Tracking> tracking_;
    std::map<int, OpenBackward> backwards_;
};

}  // namespace stator::track
