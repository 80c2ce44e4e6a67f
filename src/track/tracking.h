/// The state of a tracker from entering its context to leaving it: which modules run, in every thread.
///
/// Forward is observed by hooks that PyTorch calls around every module call. For backward, the birth log tells in which
/// module the node was created that autograd runs in this thread. So nothing has
/// to be done for a running node, unless it creates nodes itself, for a gradient of a gradient.
///
/// Two locks. Names and paths need the GIL. What autograd's threads read and write without the GIL (the active
/// trackers, what runs in a thread, the logs) needs `gate`, which is held briefly and never while Python may run.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cpython/callers.h"
#include "torch/autograd.h"
#include "track/birth_log.h"
#include "track/path.h"

namespace stator::track {

extern std::mutex gate;

/// A module call in progress.
struct RunningCall {
    const Path* path;
    const cpython::Frame*
        frame;         // of `Module._call_impl`, which runs the hooks around the call; null if it was not found
    const void* node;  // the node in whose backward it was made, or null
    bool is_wrapper;   // it counts as the call of the wrapped module, which may follow inside
    bool is_reported;  // false if its path is that of the enclosing call
};

/// What runs in one thread.
struct ThreadState {
    explicit ThreadState(const Path* outside) : births(outside), began(torch_room::next_birth_number()), since(began) {}

    std::vector<RunningCall> calls;
    BirthLog births;
    std::vector<const Path*> enclosing;  // for each observed running node or backward: the path of the thread before
    std::size_t running_nodes = 0;       // of those that were observed
    std::uint64_t began;                 // the number of the next node when the thread was first seen
    bool is_followed = false;            // its module calls are or were observed
    std::uint64_t since;                 // the number of the next node at the last event
    const Path* shown = nullptr;         // the path of a running callback's event
};

class Tracking {
  public:
    explicit Tracking(std::shared_ptr<Names> names);

    /// A call of `module` begins. Returns the call, if it has a name, else null; and calls that ended without a hook,
    /// as after KeyboardInterrupt, the innermost first.
    struct Begun {
        const Path* path = nullptr;
        std::vector<const Path*> abandoned;
    };
    Begun begin(Borrowed<> module);
    /// A call ends. Returns it with all calls inside that an exception has ended, the innermost first.
    /// Empty if that call began before the tracking.
    std::vector<const Path*> end(Borrowed<> module);

    /// The path of this thread, in forward or backward.
    const Path* here();
    /// Overrides `here` while it is not null.
    void show(const Path* path);
    const Path* outside() const { return paths_.outside(); }

    /// A backward pass begins and ends in this thread, inside of a node or outside of any. With `gate` held. One that
    /// Python starts begins with the GIL held.
    void before_python_backward(const torch_room::RunningNode& node);
    void before_backward(const torch_room::RunningNode& node);
    void after_backward();
    /// A checkpointed function is called in this thread. Needs the GIL.
    void before_checkpoint();
    /// A node of a backward pass begins and ends, which matters only if it creates nodes itself. With `gate`
    /// held.
    struct NodeRun {
        const Path* made_at;
        const Path* enclosing;  // the path of the thread before
        bool is_outermost;      // no other node of this thread is waiting for this one
    };
    NodeRun before_node();
    void after_node();
    /// Whether the node was created while this tracker observed module calls.
    bool knows(torch_room::Birth birth) const;

    /// The thread that entered the context.
    const std::uint64_t owner;

  private:
    ThreadState& state();
    const Path* made_at(torch_room::Birth birth) const;
    void mark(ThreadState& thread, const Path* path);
    /// Only this many calls are running; inner ones ended without a hook. Nodes created since the last
    /// event are attributed to the time after them: nodes of a call that raised are hardly ever used.
    void mark_abandoned(ThreadState& thread, std::size_t running);
    /// Attributes the nodes created since the last event to the running node, as in recomputation.
    void mark_made_by(ThreadState& thread, const torch_room::RunningNode& node);

    std::shared_ptr<Names> names_;
    Paths paths_;
    std::unordered_map<std::uint64_t, std::unique_ptr<ThreadState>> threads_;
};

}  // namespace stator::track
