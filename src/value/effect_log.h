/// The side effects of the program on objects from outside, in order. `EffectWriter` in the trace room implements it.
#pragma once

#include <span>
#include <vector>

#include "effect/plan.h"
#include "value/value.h"

namespace stator {

/// A mutation of an object from outside. The plan makes it on the real object after the graph has run.
struct Effect {
    PlanOp op;                   // SetAttribute, SetItem, Append, Add, SetCell; or Call, whose result is dropped
    std::vector<Value*> from;    // first the mutated object, then the operands; null stands for a deletion
    PyObject* object = nullptr;  // the name of the attribute, or the function to call
    /// Of a call whose result the program keeps: the value of that result. Rebuilding it makes the call.
    Value* result = nullptr;
};

class EffectLog {
  public:
    virtual ~EffectLog() = default;

    /// Logs a mutation, which the value has modelled already or is about to. Breaks the graph if replaying it would run
    /// code of the program.
    virtual void log(Effect effect) = 0;
    /// An attribute of an object that the trace has made is set. The plan makes the object as it is in the end: this is
    /// for those who want to know.
    virtual void note_change_of_made(const Value* value) = 0;
    /// Forgets all side effects but the first `count`: the others have undone each other.
    virtual void forget_from(std::size_t count) = 0;
    /// Called before a mutation that the plan can't replay: breaks the graph if the value came from outside.
    virtual void expect_made_in_trace(const Value* value) = 0;
    /// Called before a weak reference is dereferenced. Breaks the graph unless the program still holds the referent: an
    /// object that was dropped inside of the trace has not been freed yet.
    virtual void expect_held(Value* value) = 0;

    /// While the log is empty, objects from outside are as they were when the trace began.
    bool empty() const { return effects_.empty(); }
    std::size_t size() const { return effects_.size(); }
    std::span<const Effect> entries() const { return effects_; }
    /// Whether the program has mutated this value.
    bool has_mutated(const Value* value) const;

  protected:
    std::vector<Effect> effects_;
};

}  // namespace stator
