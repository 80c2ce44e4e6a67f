/// Writes the plan at the end of a trace: what is left to do after the graph has run, for a program that returned and
/// for one that continues in real frames after a graph break.
#pragma once

#include <vector>

#include "effect/plan.h"
#include "trace/call_stack.h"
#include "trace/exits/effects.h"
#include "trace/exits/lifetimes.h"
#include "trace/recorder/graph_recorder.h"
#include "value/tracer.h"

namespace stator {

/// How a program leaves a trace.
struct TraceExit {
    Plan plan;
    std::vector<Source*> fetched;  // the sources that the plan reads
};

class ExitWriter {
  public:
    /// `generators` are all that were made in the trace.
    ExitWriter(Tracer& tracer, const CallStack& stack, GraphRecorder& recorder, const EffectWriter& effects,
               Lifetimes& lifetimes, const std::vector<GeneratorValue*>& generators)
        : tracer_(tracer),
          stack_(stack),
          recorder_(recorder),
          effects_(effects),
          lifetimes_(lifetimes),
          generators_(generators) {}

    /// For a program that returned a value.
    /// `held` are the generators in its variables, which CPython frees, and with that closes, when it has returned.
    TraceExit write_return(Value* result, const std::vector<GeneratorValue*>& held);
    /// For a program that continues in the open frames. `runs_callbacks` says that the instruction of the innermost one
    /// will call code of the program.
    TraceExit write_break(bool runs_callbacks);

  private:
    void offer_inputs(Value* result);
    PlanBuilder begin();
    TraceExit finish(PlanBuilder plan, bool is_return);
    /// Restores the modes of PyTorch in the graph, and sets those that the program has reached in the plan.
    void write_modes(PlanBuilder& plan, bool is_return);
    void write_settings(PlanBuilder& plan, bool is_return);
    void write_function_modes(PlanBuilder& plan);
    void write_frames(PlanBuilder& plan, bool runs_callbacks);
    static void write_slots(PlanBuilder& plan, PlanFrame& state, const BytecodeFrame& frame, bool is_entered);
    void write_stack(PlanBuilder& plan, PlanFrame& state, const BytecodeFrame& frame, bool is_innermost);
    /// Breaks if a generator that the plan does not rebuild is suspended inside a `try` or `with`: CPython runs the
    /// rest of those when it frees the generator.
    void check_dropped_generators(const PlanBuilder& plan) const;
    bool runs_code_when_dropped(const PlanBuilder& plan, const GeneratorValue* generator) const;

    Tracer& tracer_;
    const CallStack& stack_;
    GraphRecorder& recorder_;
    const EffectWriter& effects_;
    Lifetimes& lifetimes_;
    const std::vector<GeneratorValue*>& generators_;
    graph::Node* offered_ = nullptr;  // an input that is a result of the graph for the backend alone
};

}  // namespace stator
