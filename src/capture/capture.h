/// Captures a frame: from the frame and the knowledge of earlier captures to an entry. A capture is a loop over
/// attempts, and an attempt goes through stages, each a function from a value to a value:
///
///     trace          the program, up to its end or to a graph break      -> Trace           trace/trace.h
///     guards         what the trace assumed, compiled                    -> GuardProgram    guard/program.h
///     graph module   the graph as torch.fx has it                        -> GraphModule     capture/graph_module.h
///     ranks          agree on what they compile                                             capture/rank_agreement.h
///     backend        compiles the graph                                  -> CompiledGraph   capture/backend.h
///     entry                                                              -> Entry           capture/entry.h
///
/// A stage may return `Again`: then the next attempt starts with what that stage has learned.
#pragma once

#include "base/shared.h"
#include "capture/entry.h"
#include "capture/options.h"
#include "capture/report.h"
#include "source/knowledge.h"
#include "trace/trace.h"

namespace stator {

/// What to capture, and how.
struct CaptureRequest {
    cpython::Frame* frame;
    bytecode::Index at;  // the instruction that the frame is about to execute
    const CompileOptions& options;

    TraceRequest for_trace() const;
};

/// A new entry for the frame; null if it runs uncompiled and is traced again next time. `knowledge` receives what was
/// learned. Throws PythonError.
Shared<Entry> capture(const CaptureRequest& request, SharedKnowledge& knowledge, CaptureReport& report);

/// The settings that decide what is captured, as they are now: entries captured under other ones are not shared.
std::string print_capture_settings(const CompileOptions& options);

/// What the program reads in this call, as an entry that is not captured: from it a later capture learns what has
/// changed. Null if the trace has to be repeated. Throws PythonError.
Shared<Entry> observe(const CaptureRequest& request, const Knowledge& knowledge);

/// The number of successful captures since the process started.
std::size_t capture_count();

}  // namespace stator
