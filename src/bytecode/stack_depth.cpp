#include "bytecode/stack_depth.h"

#include <utility>
#include <vector>

namespace stator::bytecode {

namespace {

/// The depths that the paths from the start lead to, each instruction visited once.
class Depths {
  public:
    explicit Depths(const Code& code) : code_(code), found_(code.instructions().size(), -1) {
        reach({0}, 0);
        while (!waiting_.empty()) {
            Index at = waiting_.back();
            waiting_.pop_back();
            leave(at, found_[static_cast<std::size_t>(at.value)]);
        }
    }
    int before(Index at) const { return found_[static_cast<std::size_t>(at.value)]; }

  private:
    void reach(Index at, int depth) {
        if (at >= code_.end() || depth < 0) return;
        int& found = found_[static_cast<std::size_t>(at.value)];
        if (found >= 0) return;
        found = depth;
        waiting_.push_back(at);
    }
    void leave(Index at, int depth) {
        const Instruction& instruction = code_[at];
        if (falls_through(instruction.op)) reach(at.next(), depth + stack_effect(instruction, false));
        if (instruction.target.is_valid()) reach(instruction.target, depth + stack_effect(instruction, true));
        if (const Handler* handler = code_.handler_for(at))
            reach(handler->target, handler->depth + (handler->push_lasti ? 2 : 1));
    }

    const Code& code_;
    std::vector<int> found_;
    std::vector<Index> waiting_;
};

}  // namespace

std::optional<int> stack_depth_before(const Code& code, Index at) {
    if (!at.is_valid() || at >= code.end()) return std::nullopt;
    int depth = Depths(code).before(at);
    return depth < 0 ? std::nullopt : std::optional(depth);
}

}  // namespace stator::bytecode
