/// `out=`: the same question without it, and the answer turned into one about the tensors that were given.
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
    /// The operation takes `out=`, and in a form that is understood.
    bool is_known() const { return kind_ != Out::None; }
    const graph::Argument& argument() const { return *argument_; }
    /// The question without `out=`.
    Question without() const { return {question_.kind, question_.target, question_.arguments, keywords_}; }
    /// Makes the answer to `without` the one to the question. False where the tensors given don't fit: PyTorch then
    /// resizes them, with a warning, or refuses.
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
