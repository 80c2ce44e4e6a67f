/// Operations that raise for some data of their arguments: an index that is out of range, an integer division by zero.
/// They run even if their result is unused, as uncompiled.
#pragma once

#include "shape/infer.h"

namespace stator::shape {

bool may_fail(const Question& question);
/// Whether it is a custom operation of the program or a library: it may raise any exception.
bool is_custom(const Question& question);

}  // namespace stator::shape
