/// The state of autograd in this thread: the node that a backward pass is running, the sequence numbers of new nodes,
/// and an observer of every node that runs. Nothing here changes an autograd graph, and only the last function needs
/// the GIL.
#pragma once

#include <Python.h>

#include <cstdint>
#include <functional>

namespace stator::torch_room {

/// Every thread numbers the nodes that it creates, in order. Thread and number identify when a node was created.
struct Birth {
    std::uint64_t thread = 0;
    std::uint64_t number = 0;
};

/// The node that the backward pass in this thread evaluates, including its hooks. `identity` is null if none. A node
/// that accumulates the gradient of a leaf has no birth of its own: it gets that of the node that produces the last
/// part of that gradient, right after which it runs.
struct RunningNode {
    const void* identity = nullptr;
    Birth birth;
};
RunningNode running_node();

/// During its lifetime, this thread runs the backward pass that starts from `tensors`, a tuple. That is needed to know
/// to which leaves the first node passes gradients, and which leaves are roots of the pass themselves.
class StartedPass {
  public:
    explicit StartedPass(PyObject* tensors);
    ~StartedPass();
    StartedPass(const StartedPass&) = delete;
    StartedPass& operator=(const StartedPass&) = delete;
};

/// The id of the backward pass that runs in this thread, -1 if none. Never reused.
int running_backward();

/// As in `Birth`.
std::uint64_t this_thread();
/// The number of the next node that this thread creates.
std::uint64_t next_birth_number();
/// A birth now, whose number is taken so that no node gets it.
Birth take_birth();

/// Called in the thread that runs a node, while it runs, without the GIL. They must not
/// throw.
struct NodeObserver {
    void (*before)();
    void (*after)();
};
/// At most one observer. It is called for every node until `stop_observing_nodes`, which costs some half a
/// microsecond for each node.
void observe_nodes(NodeObserver observer);
void stop_observing_nodes();

/// Called around every backward pass that C++ code starts (not those that Python starts), in the
/// thread that starts it, without the GIL. They must not throw.
struct PassObserver {
    void (*before)(bool create_graph);
    void (*after)(bool create_graph);
};
/// At most one observer.
void observe_native_passes(PassObserver observer);
void stop_observing_native_passes();

/// Calls `work` with the GIL when the backward pass that runs in this thread has succeeded, in one of
/// its threads. If it throws `PythonError`, the pass raises. To be called while a node runs.
void at_end_of_backward(std::function<void()> work);
/// Makes the backward pass that runs in this thread end with the Python exception that is set, and clears it. The pass
/// runs to its end: an observer can't stop it.
void raise_at_end_of_backward();

}  // namespace stator::torch_room
