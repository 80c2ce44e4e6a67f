/// Where autograd stands in this thread: the node of a backward pass that runs, the numbers that new nodes get, and
/// being told of every node that runs. Nothing here touches a graph, and only the last function needs the interpreter's
/// lock.
#pragma once

#include <Python.h>

#include <cstdint>
#include <functional>

namespace stator::torch_room {

/// Every thread numbers the nodes that it makes, in order. Together the two tell when and where a node was made.
struct Birth {
    std::uint64_t thread = 0;
    std::uint64_t number = 0;
};

/// The node that the backward pass in this thread evaluates, its hooks included. `identity` is null if none. A node
/// that only gathers the gradient of a leaf has no birth of its own: it stands for the node that gives the last part of
/// that gradient, right after which it runs.
struct RunningNode {
    const void* identity = nullptr;
    Birth birth;
};
RunningNode running_node();

/// This thread runs the backward pass that starts from `tensors`, a tuple, for as long as this lives. Only so is it
/// known which leaves the first node gives gradients to, and where a leaf got one that is such a start itself.
class StartedPass {
  public:
    explicit StartedPass(PyObject* tensors);
    ~StartedPass();
    StartedPass(const StartedPass&) = delete;
    StartedPass& operator=(const StartedPass&) = delete;
};

/// The backward pass that runs in this thread, -1 if none. Never used for two.
int running_backward();

/// As in `Birth`.
std::uint64_t this_thread();
/// What the next node that this thread makes will get.
std::uint64_t next_birth_number();
/// A birth of this moment, its number taken so that no node gets it.
Birth take_birth();

/// Called in whatever thread runs a node, while it is the running one, without the interpreter's lock. They must not
/// throw.
struct NodeObserver {
    void (*before)();
    void (*after)();
};
/// There is one observer at most: it is told of every node from here to `stop_observing_nodes`. That costs some half a
/// microsecond for each node.
void observe_nodes(NodeObserver observer);
void stop_observing_nodes();

/// Called around every backward pass that C++ code starts by itself (those that Python starts take another way), in the
/// thread that starts it, without the interpreter's lock. They must not throw.
struct PassObserver {
    void (*before)(bool create_graph);
    void (*after)(bool create_graph);
};
/// There is one observer at most.
void observe_native_passes(PassObserver observer);
void stop_observing_native_passes();

/// Calls `work` with the interpreter's lock when the backward pass that runs in this thread has ended well, in one of
/// its threads. What it throws as `PythonError`, the pass raises. To be called while a node runs.
void at_end_of_backward(std::function<void()> work);
/// Lets the backward pass that runs in this thread end with the Python exception that is set, and clears it. The pass
/// goes on until then: an observer can't stop it.
void raise_at_end_of_backward();

}  // namespace stator::torch_room
