/// Visits the tensor arguments of a question in their numbering.
#pragma once

#include <vector>

#include "graph/node.h"
#include "shape/infer.h"

namespace stator::shape {

/// The result of an argument that is a tensor; otherwise null.
inline const graph::Result* tensor_result(const graph::Argument& argument) {
    if (argument.kind != graph::Argument::Kind::Node) return nullptr;
    return argument.node->result.kind == graph::Result::Kind::Tensor ? &argument.node->result : nullptr;
}

/// The distinct nodes that are tensors, in order of appearance.
class TensorArguments {
  public:
    explicit TensorArguments(const Question& question) {
        for (const auto& argument : question.arguments) add(argument);
        for (const auto& keyword : question.keywords) add(keyword.value);
    }

    /// The number of a node, or -1.
    int index_of(const graph::Node* node) const {
        for (std::size_t i = 0; i < nodes_.size(); ++i)
            if (nodes_[i] == node) return static_cast<int>(i);
        return -1;
    }
    const std::vector<const graph::Node*>& nodes() const { return nodes_; }

  private:
    void add(const graph::Argument& argument) {
        if (argument.kind == graph::Argument::Kind::Constant) return;
        if (argument.kind == graph::Argument::Kind::Node) {
            if (tensor_result(argument) != nullptr && index_of(argument.node) < 0) nodes_.push_back(argument.node);
            return;
        }
        for (const auto& item : argument.items->values) add(item);
    }

    std::vector<const graph::Node*> nodes_;
};

}  // namespace stator::shape
