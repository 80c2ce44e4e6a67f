/// What a trace did, step by step: for the logs of torch that follow a trace (`trace_source`, `trace_call`,
/// `trace_bytecode`, `side_effects`). It is only kept if one of them is on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "bytecode/instruction.h"
#include "graph/node.h"

namespace stator {

class TraceLog {
  public:
    struct Event {
        enum class Kind : std::uint8_t { Instruction, Node, Effect, Undone };
        Kind kind;
        // Instruction: where it is, and how many calls are inlined around it.
        Ref<PyCodeObject> code;
        int offset = 0;
        std::size_t depth = 0;
        // Node: its name. Effect: the source of the mutated object.
        std::string name;
        std::string type;  // Effect: the class of that object
    };

    void note_instruction(PyCodeObject* code, cpython::Offset offset, std::size_t depth) {
        events_.push_back({Event::Kind::Instruction, Ref<PyCodeObject>::share(code), offset.value, depth, {}, {}});
    }
    /// The last instruction has made the nodes that were not noted yet.
    void note_nodes(const graph::Graph& graph);
    /// Returns the position of the event, for `undo`.
    std::size_t note_effect(std::string source, std::string type);
    void undo(std::size_t position) { events_[position].kind = Event::Kind::Undone; }
    /// At the end, as long as the graph lives. Nodes that are not part of it are forgotten.
    void name_nodes(const graph::Graph& graph);

    void clear() { *this = TraceLog(); }
    const std::vector<Event>& events() const { return events_; }

  private:
    std::vector<Event> events_;
    std::size_t noted_nodes_ = 0;
    std::vector<std::pair<std::size_t, const graph::Node*>> unnamed_;  // with the position of the event
};

}  // namespace stator
