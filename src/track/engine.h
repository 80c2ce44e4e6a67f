/// Observes the begin and end of backward passes by replacing PyTorch's engine object: Python starts every
/// pass through `Variable._execution_engine.run_backward`. Passes that C++ code starts are not observed here.
#pragma once

namespace stator::track {

/// Called in the thread that starts the pass, with the GIL. They must not throw.
struct BackwardWatch {
    void (*before)(bool create_graph);
    void (*after)(bool create_graph);
};

/// At most one observer. Both need the GIL; the first throws `PythonError`.
void watch_backwards(BackwardWatch watch);
void stop_watching_backwards();

}  // namespace stator::track
