/// A recorded write gives a history to a tensor that had none, and with it to the tensor that it is a view of and to
/// all views of that: their metadata follow.
#pragma once

#include <vector>

#include "graph/node.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

class ViewHistories {
  public:
    ViewHistories(Tracer& tracer, Arena& arena) : tracer_(tracer), arena_(arena) {}

    /// `maker` has made a view.
    void note_view(TensorValue* view, const graph::Node& maker);
    /// Whether there are views of a tensor, or of one that it is a view of.
    bool has_views(const TensorValue* tensor) const;
    /// An operation has given a history to a tensor.
    void note_history(const TensorValue* written);

  private:
    Tracer& tracer_;
    Arena& arena_;  // of the graph
    std::vector<TensorValue*> views_;
};

}  // namespace stator
