/// Which operators of libraries a graph may have: with `torch._dynamo.config.only_allow_pt2_compliant_ops` only those
/// that are tagged `torch.Tag.pt2_compliant_tag`.
#pragma once

#include <string>

#include "shape/infer.h"

namespace stator::shape {

/// Why the operator must not be in a graph; empty if it may.
std::string reason_to_refuse(const Question& question);

}  // namespace stator::shape
