/// Undoes what a graph did before it raised, so that the program can run uncompiled from where the graph began and
/// raise by itself: with its own exception, into its own handlers, after its own side effects.
///
/// Ordinary models need this: an embedding after a dropout or a batch norm raises for an index out of range. The inputs
/// that they write to are small, and are copied before each run of such a graph; so is the random state.
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
        Backend,      // writes to inputs at an unknown time
        WritesAtEnd,  // by a backend that computes everything before it writes to an input
    };

    Undo() = default;
    /// For a graph with these inputs, and the positions of those that it writes to.
    Undo(const graph::Graph& graph, std::span<PyObject* const> inputs, std::span<const std::size_t> written);
    /// Decides what is saved, once it is known how the graph runs.
    void settle(By by);

    /// To be called before the graph runs. Null if there is nothing to save, or if saving would not be enough.
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
    // Over all nodes of the graph.
    bool is_visible_to_program_ = false, is_lasting_ = false, may_fail_ = false;
    bool may_fail_behind_effect_ = false;  // in the program's order
    bool has_other_way_ = true;            // the frame can always be left at that operation instead
};

}  // namespace stator
