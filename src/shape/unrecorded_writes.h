/// Writes that are not in PyTorch's schemas: running statistics, which kernels update although their schema declares
/// them as inputs.
#pragma once

#include "shape/infer.h"

namespace stator::shape {

void note_unrecorded_writes(const Question& question, Answer& answer);

}  // namespace stator::shape
