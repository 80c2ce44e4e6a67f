/// A graph that failed in its middle, when the program could already see something of what it did. The frame is traced
/// once more, up to the operation that failed, and left there with the values that the graph had computed: then that
/// operation is executed for real, and raises where it should; or its exception is raised there, if it has written to
/// something.
#pragma once

#include "graph/runner.h"
#include "run/frame_run.h"

namespace stator {

/// Brings a frame to the operation at which the graph of `exit->entry` failed, with a plan of its own in `exit`; false
/// if that can't be done, which leaves the frame as it is. The exception that is set stays. Does not throw.
bool exit_before_failure(EntryCache& cache, PyThreadState* thread, cpython::Frame* frame, bytecode::Index at,
                         const graph::Failure& failure, Exit* exit);

}  // namespace stator
