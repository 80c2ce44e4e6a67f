/// From a frame, and what was learned before, to an entry. A capture is a loop over attempts, and an attempt goes
/// through stages, each a function from a value to a value:
///
///     trace          the program, up to its end or to a graph break      -> Trace           trace/trace.h
///     guards         what the trace assumed, compiled                    -> GuardProgram    guard/program.h
///     graph module   the graph as torch.fx has it                        -> GraphModule     capture/graph_module.h
///     ranks          agree on what they compile                                             capture/rank_agreement.h
///     backend        compiles the graph                                  -> CompiledGraph   capture/backend.h
///     entry                                                              -> Entry           capture/entry.h
///
/// A stage may answer `Again`: then the next attempt begins with what that one has learned.
#pragma once

#include "base/shared.h"
#include "capture/entry.h"
#include "capture/options.h"
#include "capture/report.h"
#include "source/knowledge.h"
#include "trace/trace.h"

namespace stator {

/// What is to be captured, and how.
struct CaptureRequest {
    cpython::Frame* frame;
    bytecode::Index at;  // the instruction that the frame is about to execute
    const CompileOptions& options;

    TraceRequest for_trace() const;
};

/// A new entry for the frame; null where it runs uncompiled without being remembered. `knowledge` gets what was
/// learned. Throws PythonError.
Shared<Entry> capture(const CaptureRequest& request, SharedKnowledge& knowledge, CaptureReport& report);

/// How many captures succeeded since the process began.
std::size_t capture_count();

}  // namespace stator
