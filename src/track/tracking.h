/// One tracked stretch of a program, from entering the context to leaving it: which modules run, in every thread.
///
/// Forward is told by hooks that PyTorch calls around every module call. Backward is read off: the node that autograd
/// runs in this thread was made at some moment, and the log of births tells where the program was then. So nothing has
/// to be done for a node that runs, unless it makes nodes in its turn, for a gradient of a gradient.
///
/// Two locks. Names and paths need the interpreter's lock. What autograd's threads read and write without that one (who
/// is active, what runs in a thread, the logs) needs `gate`, which is held for moments and never while Python may run.
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
    const cpython::Frame* frame;  // PyTorch's function that runs the hooks around the call; null if it was not found
    const void* node;             // the node in whose backward it was made, null if in none
    bool is_wrapper;              // it stands for the call of the module that it wraps, which may come in it
    bool is_told;                 // not if its path is that of the call around it
};

/// What runs in one thread.
struct ThreadState {
    explicit ThreadState(const Path* outside) : births(outside), began(torch_room::next_birth_number()), since(began) {}

    std::vector<RunningCall> calls;
    BirthLog births;
    std::vector<const Path*> enclosing;  // for each node or backward that runs, and was told: where the thread was
    std::size_t running_nodes = 0;       // of those that were told
    std::uint64_t began;                 // the number of the next node when the thread was first met
    bool is_followed = false;            // its module calls are told, or were
    std::uint64_t since;                 // the number of the next node when something was last told
    const Path* shown = nullptr;         // what a callback is told of, while it runs
};

class Tracking {
  public:
    explicit Tracking(std::shared_ptr<Names> names);

    /// A call of `module` begins. The call, if it has a name, else null; and calls that ended without a word, as after
    /// KeyboardInterrupt, the innermost first.
    struct Begun {
        const Path* path = nullptr;
        std::vector<const Path*> abandoned;
    };
    Begun begin(Borrowed<> module);
    /// The call that PyTorch's function ends now, with all that were left in it by an exception, the innermost first.
    /// Nothing if that call was begun before the tracking was.
    std::vector<const Path*> end(Borrowed<> module);

    /// Where this thread is, in forward or backward.
    const Path* here();
    /// Lets `here` say this instead, for as long as it is not null.
    void show(const Path* path);
    const Path* outside() const { return paths_.outside(); }

    /// A backward pass begins and ends in this thread, inside of a node or outside of any. With `gate` held. One that
    /// Python starts begins with the interpreter's lock.
    void before_python_backward(const torch_room::RunningNode& node);
    void before_backward(const torch_room::RunningNode& node);
    void after_backward();
    /// A checkpointed function is called in this thread. Needs the interpreter's lock.
    void before_checkpoint();
    /// A node of a backward pass begins and ends, which matters only where it makes nodes in its turn. With `gate`
    /// held.
    struct NodeRun {
        const Path* made_at;
        const Path* enclosing;  // where the thread was before
        bool is_outermost;      // no other node waits in this thread for this one to end
    };
    NodeRun before_node();
    void after_node();
    /// Whether the node was made where this one was told of module calls.
    bool knows(torch_room::Birth birth) const;

    /// The thread that entered the context.
    const std::uint64_t owner;

  private:
    ThreadState& state();
    const Path* made_at(torch_room::Birth birth) const;
    void mark(ThreadState& thread, const Path* path);
    /// Only so many calls run, and nobody was told that those in them ended. What was made since something was last
    /// told was made after that: what a call makes that ends with an exception is hardly ever used.
    void mark_abandoned(ThreadState& thread, std::size_t running);
    /// What was made since something was last told was made by the running node, as when a function is computed again.
    void mark_made_by(ThreadState& thread, const torch_room::RunningNode& node);

    std::shared_ptr<Names> names_;
    Paths paths_;
    std::unordered_map<std::uint64_t, std::unique_ptr<ThreadState>> threads_;
};

}  // namespace stator::track
