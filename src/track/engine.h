/// Being told when a backward pass begins and ends, by standing in for PyTorch's engine object: Python starts every
/// pass through `Variable._execution_engine.run_backward`. Passes that C++ code starts are not seen.
#pragma once

namespace stator::track {

/// Called in the thread that starts the pass, with the interpreter's lock. They must not throw.
struct BackwardWatch {
    void (*before)(bool create_graph);
    void (*after)(bool create_graph);
};

/// There is one watch at most. Both need the interpreter's lock; the first throws `PythonError`.
void watch_backwards(BackwardWatch watch);
void stop_watching_backwards();

}  // namespace stator::track
