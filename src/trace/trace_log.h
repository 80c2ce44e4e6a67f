/// What a trace did, step by step: for the logs of torch that follow a trace (`trace_source`, `trace_call`,
/// `trace_bytecode`, `side_effects`), and for those that say which line needs a guard (`guards`, `recompiles`,
/// `dynamic`). It is only kept if one of them is on.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "bytecode/instruction.h"
#include "graph/node.h"
#include "guard/guard.h"

namespace stator {

class TraceLog {
  public:
    struct Event {
        enum class Kind : std::uint8_t { Instruction, Node, Guard, Effect, Undone };
        Kind kind;
        // Instruction: where it is, and how many calls are inlined around it.
        Ref<PyCodeObject> code;
        int offset = 0;
        std::size_t depth = 0;
        // Node: its name. Guard: its text. Effect: the source of the mutated object, or empty if the trace has made it.
        std::string name;
        std::string type;     // Effect: the class of that object
        int made_object = 0;  // Effect: the number of an object that the trace has made
    };

    void note_instruction(PyCodeObject* code, cpython::Offset offset, std::size_t depth) {
        events_.push_back({Event::Kind::Instruction, Ref<PyCodeObject>::share(code), offset.value, depth, {}, {}, 0});
    }
    /// The last instruction has made the nodes that were not noted yet.
    void note_nodes(const graph::Graph& graph);
    /// The last instruction has added the guards that were not noted yet.
    void note_guards(std::span<const Guard> guards);
    /// Returns the position of the event, for `undo`. `made_object` is the number of an object without a source.
    std::size_t note_effect(std::string source, std::string type, int made_object = 0);
    void undo(std::size_t position) { events_[position].kind = Event::Kind::Undone; }
    /// At the end, as long as the graph lives. Nodes that are not part of it are forgotten.
    void name_nodes(const graph::Graph& graph);
    void name_guards(std::span<const Guard> guards);

    void clear() { *this = TraceLog(); }
    const std::vector<Event>& events() const { return events_; }

  private:
    std::vector<Event> events_;
    std::size_t noted_nodes_ = 0;
    std::vector<std::size_t> noted_guards_;                            // the position of the event of each
    std::vector<std::pair<std::size_t, const graph::Node*>> unnamed_;  // with the position of the event
};

}  // namespace stator
