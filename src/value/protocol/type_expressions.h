/// Types that are written as expressions: `list[int]`, `dict[str, int] | None`. Python evaluates them where a function
/// with annotations is defined.
#pragma once

#include "value/value.h"

namespace stator {

/// `left | right`; null unless both operands are types, and one of them is `list[int]` or a union.
Value* union_of_types(Tracer& tracer, Value* left, Value* right);

}  // namespace stator
