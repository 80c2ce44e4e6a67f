/// Undoes changes of the tracer's symbolic state if the instruction that made them can't be captured.
#pragma once

#include <utility>
#include <vector>

#include "base/arena.h"

namespace stator {

class UndoLog {
  public:
    /// Adds a function that undoes one change. It lives in the arena.
    template <class Undo>
    void add(Arena& arena, Undo undo) {
        struct Holder final : Step {
            explicit Holder(Undo undo) : undo_(std::move(undo)) {}
            void run() override { undo_(); }
            Undo undo_;
        };
        steps_.push_back(arena.make<Holder>(std::move(undo)));
    }
    /// Undoes all changes, the last one first.
    void roll_back() {
        for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) (*step)->run();
        steps_.clear();
    }
    /// The changes stay.
    void commit() { steps_.clear(); }

  private:
    struct Step {
        virtual ~Step() = default;
        virtual void run() = 0;
    };
    std::vector<Step*> steps_;
};

}  // namespace stator
