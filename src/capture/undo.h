/// Undoing what a graph did before it failed, so that the program can run uncompiled from where the graph began and
/// fail by itself: with its own exception, in its own handlers, behind its own side effects.
///
/// Ordinary models need this: an embedding behind a dropout or a batch norm fails for an index that is out of range.
/// What they write to is small, and is copied before each run of such a graph; so is the state of the random generator.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/node.h"
#include "torch/kept_state.h"

namespace stator {

class Undo {
  public:
    /// How the graph runs.
    enum class By : std::uint8_t {
        Runner,       // operation by operation
        Backend,      // nobody knows when it writes
        WritesAtEnd,  // by a backend that computes everything before it writes to an input
    };

    Undo() = default;
    /// Of a graph with these inputs, some of which, by their positions, it writes to.
    Undo(const graph::Graph& graph, std::span<PyObject* const> inputs, std::span<const std::size_t> written);
    /// Decides what is kept, once it is known how the graph runs.
    void settle(By by);

    /// To be called before the graph runs. Null if there is nothing to keep, or if that would not do.
    std::unique_ptr<torch_room::KeptState> keep(std::span<PyObject* const> inputs) const {
        return is_wanted_ ? keep_now(inputs) : nullptr;
    }

  private:
    std::unique_ptr<torch_room::KeptState> keep_now(std::span<PyObject* const> inputs) const;

    bool is_wanted_ = false;
    bool with_contents_ = true;
    std::vector<std::size_t> written_;
    std::optional<std::size_t> bytes_;         // of the inputs that are written to; none if they can't be copied
    std::vector<torch_room::Device> devices_;  // that random numbers are drawn on
    // Of the graph's nodes, all together.
    bool is_seen_ = false, is_lasting_ = false, may_fail_ = false;
    bool may_fail_behind_effect_ = false;  // in the program's order
    bool has_other_way_ = true;            // wherever it does, the frame can be left at that operation
};

}  // namespace stator
