/// Operations that PyTorch refuses for some contents of their arguments: an index that is out of range, a division of
/// integers by zero. They run even if nobody uses their result, as in the uncompiled program.
#pragma once

#include "shape/infer.h"

namespace stator::shape {

bool may_fail(const Question& question);
/// Whether the program, or a library, has registered the operation: it may raise anything.
bool is_custom(const Question& question);

}  // namespace stator::shape
