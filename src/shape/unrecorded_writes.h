/// Writes that PyTorch's schemas don't tell of: running statistics, which are updated by kernels whose schema calls
/// them inputs.
#pragma once

#include "shape/infer.h"

namespace stator::shape {

void note_unrecorded_writes(const Question& question, Answer& answer);

}  // namespace stator::shape
