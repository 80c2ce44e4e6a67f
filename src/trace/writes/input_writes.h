/// Writes of the graph to its inputs, and operations whose effects can't be undone if the graph fails after them.
#pragma once

#include <span>
#include <vector>

#include "graph/node.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

/// The tensor at the end of a chain of views.
inline const TensorValue* base_of(const TensorValue* tensor) {
    while (tensor->view_of != nullptr) tensor = tensor->view_of;
    return tensor;
}

class InputWrites {
  public:
    explicit InputWrites(Tracer& tracer) : tracer_(tracer) {}

    /// An operation writes to a tensor. `is_recorded` says that autograd records the operation.
    void note(const TensorValue* tensor, bool is_recorded);
    /// An operation has an effect that can't be undone by restoring inputs and the state of random numbers.
    void note_lasting();
    bool has_lasting() const { return has_lasting_; }

    /// The inputs that the graph writes to.
    std::span<const TensorValue* const> inputs() const { return written_; }
    /// Whether the graph may return inputs that it has written to. If it writes to an input that requires a gradient,
    /// then or later, aot_autograd puts values into the wrong input.
    bool may_give_back_inputs() const;
    /// Marks the nodes that read such inputs, so that a backward pass does not compute them again (overwritten.cpp).
    void mark_readers_as_saved(const graph::Graph& graph) const;

  private:
    Tracer& tracer_;
    std::vector<const TensorValue*> written_;
    std::size_t bytes_written_ = 0;
    bool has_lasting_ = false;
};

}  // namespace stator
