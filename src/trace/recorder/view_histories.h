/// A recorded write gives a history to a tensor that had none, and with it to the tensor that it is a view of and to
/// all views of that, inputs among them that were made views outside of the program: their metadata follow.
#pragma once

#include <vector>

#include "graph/node.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

class ViewHistories {
  public:
    ViewHistories(Tracer& tracer, Arena& arena) : tracer_(tracer), arena_(arena) {}

    /// The graph takes an input.
    void note_input(TensorValue* input);
    /// `maker` has made a view.
    void note_view(TensorValue* view, const graph::Node& maker);
    /// Whether there are views of a tensor, or of one that it is a view of.
    bool has_views(const TensorValue* tensor) const;
    /// An operation has given a history to a tensor.
    void note_history(const TensorValue* written);

  private:
    /// The base of an input for autograd, which is the input itself if it is no view. Guards whether it is one.
    Source* outside_base(TensorValue* input);
    /// Whether two inputs have one base. Guards that.
    bool share_base(TensorValue* one, TensorValue* other);
    void follow(TensorValue* base);

    Tracer& tracer_;
    Arena& arena_;  // of the graph
    std::vector<TensorValue*> views_;
    std::vector<TensorValue*> inputs_;              // that may get a history
    std::vector<TensorValue*> with_new_histories_;  // the inputs that got one by a write
};

}  // namespace stator
