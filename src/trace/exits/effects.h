/// Logs the side effects of the program on objects from outside, and replays them in the plan.
#pragma once

#include <utility>
#include <vector>

#include "effect/plan.h"
#include "trace/exits/lifetimes.h"
#include "trace/trace_log.h"
#include "value/effect_log.h"
#include "value/tracer.h"

namespace stator {

class EffectWriter final : public EffectLog {
  public:
    /// `trace_log` may be null.
    EffectWriter(Tracer& tracer, Lifetimes& lifetimes, TraceLog* trace_log)
        : tracer_(tracer), lifetimes_(lifetimes), trace_log_(trace_log) {}

    void log(Effect effect) override;
    void note_change_of_made(const Value* value) override;
    void forget_from(std::size_t count) override;
    void expect_made_in_trace(const Value* value) override;
    void expect_held(Value* value) override { lifetimes_.expect_held(value); }

    /// Adds the mutations to the plan.
    void replay(PlanBuilder& plan) const;
    /// Objects that the trace has made, and that the plan does not rebuild, are no side effects.
    void forget_dropped(const PlanBuilder& plan) const;
    /// The classes of the objects that were mutated.
    std::vector<PyTypeObject*> mutated_classes() const;

  private:
    Tracer& tracer_;
    Lifetimes& lifetimes_;
    TraceLog* trace_log_;
    std::vector<std::pair<std::size_t, const Value*>> changes_of_made_;  // with the position of the event
};

}  // namespace stator
