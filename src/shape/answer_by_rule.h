/// Rules in C++ for operations that programs call often.
#pragma once

#include <vector>

#include "base/ref.h"
#include "shape/infer.h"
#include "shape/store.h"
#include "torch/global_state.h"

namespace stator::shape {

/// False if no rule supports the operation in this form. Objects that the answer points to are added to `kept`.
bool answer_by_rule(Store& store, const Question& question, const torch_room::ResultState& state, Answer& answer,
                    std::vector<Ref<>>& kept);

/// Whether there is a rule for this callable or method at all.
bool has_rule(graph::NodeKind kind, Borrowed<> target);

}  // namespace stator::shape
