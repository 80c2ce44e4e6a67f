/// Answers about custom operations on sizes that depend on data, or with results of such sizes: the fake implementation
/// that was registered for the operation (`torch.library.register_fake`) runs on symbols.
#pragma once

#include <optional>

#include "shape/infer.h"
#include "shape/store.h"

namespace stator::shape {

/// Nothing if it is no custom operation, writes to its arguments, has no fake implementation, or if that asks for what
/// only the data tell.
std::optional<Answer> answer_for_data(Store& store, const Question& question);

}  // namespace stator::shape
