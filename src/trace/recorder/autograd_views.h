/// Views that autograd does not allow writes to: one of several (`split`, `unbind`, ...), or made while no gradients
/// were recorded. A compiler returns another tensor in place of such a view, for which autograd raises no error, or
/// whose gradient reaches the base of the view. A graph in which the program could observe that runs as it was
/// captured.
#pragma once

#include <span>
#include <unordered_map>

#include "graph/node.h"
#include "value/recorder.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

/// Does nothing in graphs that no compiler gets.
class AutogradViews {
  public:
    AutogradViews(Tracer& tracer, Recorder& recorder) : tracer_(tracer), recorder_(recorder) {}

    void note_view(const TensorValue* view, const TensorValue* base);
    /// An operation returned its argument: it is the same view.
    void note_same_view(const graph::Node* before, const graph::Node* after);
    void note_write(const TensorValue* written);

    /// Keeps the graph from compilers if one of the arguments of an operation is a view that autograd raises an error
    /// for.
    void check_arguments(std::span<TensorValue* const> arguments);
    /// The same for the results of the graph.
    void check_outputs(const graph::Argument::Items& outputs);
    /// Called before a graph break at a write that autograd does not allow: the real write has to meet the real view.
    void check_refused_write(const TensorValue* written);
    /// Breaks the graph at `detach_` of a view, which PyTorch does not allow.
    void expect_no_detached_view(graph::NodeKind kind, Borrowed<> target, std::span<TensorValue* const> arguments);

  private:
    struct View {
        std::size_t made;     // the size of the graph at that time
        bool without_grad;    // made while no gradients were recorded
        bool needs_gradient;  // the base does
    };
    bool is_compiled() const { return tracer_.run_by() == Tracer::RunBy::Compiler; }
    /// Whether its memory was written to after the view was made: autograd raises an error where it is used.
    bool is_outdated(const graph::Node* node) const;

    Tracer& tracer_;
    Recorder& recorder_;
    std::unordered_map<const graph::Node*, View> views_;
    std::unordered_map<const graph::Node*, std::size_t> last_writes_;  // by the node that made the memory
};

}  // namespace stator
