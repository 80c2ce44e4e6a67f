/// A graph that raised in its middle, after effects that the program can see. The frame is traced again up to the
/// operation that raised, and exited there with the values that the graph had computed. Then that operation is executed
/// by the interpreter and raises at its place; or its exception is raised there, if it has written to something.
#pragma once

#include "graph/runner.h"
#include "run/frame_run.h"

namespace stator {

/// Brings a frame to the operation at which the graph of `exit->entry` raised, with a separate plan in `exit`. False if
/// that is impossible, which leaves the frame unchanged. The current exception stays set. Does not throw.
bool exit_before_failure(EntryCache& cache, PyThreadState* thread, cpython::Frame* frame, bytecode::Index at,
                         const graph::Failure& failure, Exit* exit);

}  // namespace stator
