/// Views that autograd does not allow writes to: one of several (`split`, `unbind`, ...), or made while no gradients
/// were recorded. Once something has written to their memory, autograd raises an error where their history is read:
/// that breaks the graph, so that the program reads the history of the real view.
///
/// A compiler returns another tensor in place of such a view, for which autograd raises no error, or whose gradient
/// reaches the base of the view. A graph in which the program could observe that runs as it was captured.
#pragma once

#include <span>
#include <unordered_map>

#include "graph/node.h"
#include "trace/writes/input_writes.h"
#include "value/recorder.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

class AutogradViews {
  public:
    AutogradViews(Tracer& tracer, Recorder& recorder, const InputWrites& writes)
        : tracer_(tracer), recorder_(recorder), writes_(writes) {}

    void note_view(const TensorValue* view, const TensorValue* base);
    /// Iterating over a tensor gave a view.
    void note_row(const TensorValue* row, const TensorValue* base) { add(row, base, !tracer_.modes().current().grad); }
    /// An operation returned its argument: it is the same view.
    void note_same_view(const graph::Node* before, const graph::Node* after);
    void note_write(const TensorValue* written);

    /// Breaks the graph if autograd raises an error for one of the arguments of an operation.
    void check_arguments(std::span<TensorValue* const> arguments);
    /// Breaks the graph if autograd raises an error when the history of a tensor is read.
    void expect_history(const TensorValue* tensor);
    /// Whether the memory of a view was written to after it was made.
    bool is_outdated(const graph::Node* node) const;
    /// Keeps the graph from compilers if autograd treats one of its results in another way than the result of a
    /// compiler.
    void check_outputs(const graph::Argument::Items& outputs);
    /// Called before a graph break at a write that autograd does not allow: the real write has to meet the real view.
    void check_refused_write(const TensorValue* written);
    /// Breaks the graph at `detach_` of a view, which PyTorch does not allow.
    void expect_no_detached_view(graph::NodeKind kind, Borrowed<> target, std::span<TensorValue* const> arguments);

  private:
    struct View {
        std::size_t made;   // the size of the graph at that time
        bool without_grad;  // made while no gradients were recorded
        const TensorValue* base;
    };
    bool is_compiled() const { return tracer_.run_by() == Tracer::RunBy::Compiler; }
    void add(const TensorValue* view, const TensorValue* base, bool without_grad);
    bool is_refused(const TensorValue* tensor) const;
    /// The same for a view that was made outside of the graph, and may be one of an input.
    bool is_refused_outside(const TensorValue* tensor) const;

    Tracer& tracer_;
    Recorder& recorder_;
    const InputWrites& writes_;
    std::unordered_map<const graph::Node*, View> views_;
    std::unordered_map<const graph::Node*, std::size_t> last_writes_;  // by the node that made the memory
};

}  // namespace stator
