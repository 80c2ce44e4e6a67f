/// `out=`: asks the question without it, and converts the answer to one about the given tensors.
#pragma once

#include <vector>

#include "shape/infer.h"
#include "shape/language/registry.h"
#include "shape/store.h"

namespace stator::shape {

class OutForm {
  public:
    explicit OutForm(const Question& question);

    bool is_given() const { return argument_ != nullptr; }
    /// Whether the operation takes `out=`, in a supported form.
    bool is_known() const { return kind_ != Out::None; }
    const graph::Argument& argument() const { return *argument_; }
    /// The question without `out=`.
    Question without() const { return {question_.kind, question_.target, question_.arguments, keywords_}; }
    /// Converts the answer to `without` to that of the question. False if the given tensors don't fit: PyTorch then
    /// resizes them with a warning, or raises.
    bool turn(Store& store, const torch_room::ResultState& state, Answer& answer) const;

  private:
    bool put(Store& store, const TensorMeta& computed, const graph::Argument& given, Answer& answer,
             graph::Result& result) const;

    const Question& question_;
    const graph::Argument* argument_ = nullptr;
    std::vector<graph::KeywordArgument> keywords_;
    Out kind_ = Out::None;
};

}  // namespace stator::shape
