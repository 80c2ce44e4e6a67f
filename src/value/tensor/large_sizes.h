/// `guard_size_oblivious`: questions about unbacked sizes, answered for sizes of at least 2.
#pragma once

#include <optional>

#include "number/expressions.h"

namespace stator {

/// The answer to a comparison if all unbacked sizes in it are at least 2; nothing if it depends on more than that.
std::optional<bool> decided_for_large_sizes(Expressions& numbers, const Expression& comparison);

}  // namespace stator
