/// Reads of a deferred graph that may give something else when the graph runs.
///
/// The code of a deferred graph (a hook, the `backward` of a Function, a checkpointed function) is traced when it is
/// registered, but would read variables, attributes and items when it runs. If one of them may have changed by then,
/// the graph can't be used. Assumed constant: code (functions, classes, Python modules), enum members, the contents of
/// libraries; and values that the trace itself made, such as the context of a Function, if the program can't reach them
/// any more or if they are variables that are assigned once. The modules and tensors that a checkpointed function gets
/// are inputs of its graph. A backward function may read what it does not use: see unused_reads.h.
#pragma once

#include <string>
#include <vector>

#include "trace/call_stack.h"
#include "trace/exits/lifetimes.h"
#include "trace/writes/unused_reads.h"
#include "value/deferred_graph.h"
#include "value/tracer.h"

namespace stator {

class Rereads {
  public:
    Rereads(const Tracer& tracer, DeferredGraph::Kind kind) : tracer_(&tracer), kind_(kind) {}

    /// Called before an instruction: notes the object from which it reads.
    void note_object(const BytecodeFrame& frame, const bytecode::Instruction& instruction);
    /// Called after an instruction: notes the value that it has read. `operand` is what was its lowest operand, such as
    /// the object whose attribute it read; null if it had none.
    void note_value(const BytecodeFrame& frame, const bytecode::Instruction& instruction, const Value* operand);
    /// Called at the end of the deferred graph: checks whether the program may still change values that the trace made
    /// and the graph read.
    void check_made_values(const CallStack& stack, const Lifetimes& lifetimes);

    /// Whether these side effects of the graph are assignments to attributes that it has put back.
    bool put_back(std::span<const Effect> effects) const { return unused_.put_back(effects); }
    /// Describes the first such read; empty if there is none.
    const std::string& found() const { return found_; }

  private:
    void note_made_value(const BytecodeFrame& frame, const bytecode::Instruction& instruction, const Value* value);
    /// A variable holds a value that may be another one later.
    void note_variable(const Value* value, std::string what);

    const Tracer* tracer_;
    DeferredGraph::Kind kind_;
    std::string found_;
    UnusedReads unused_;
    /// A container, an object or a variable that the trace has made and the deferred graph has read.
    struct ReadMade {
        const Value* value;
        PyCodeObject* code;
        int line;
    };
    std::vector<ReadMade> read_made_;
};

}  // namespace stator
