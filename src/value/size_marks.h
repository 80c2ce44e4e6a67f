/// What the user has said about the sizes of inputs, with `torch._dynamo.mark_dynamic` and its relatives.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ref.h"
#include "number/expression.h"
#include "number/range.h"

namespace stator {

struct SizeMark {
    std::optional<Range> required;              // specializing it, or a size out of this range, is an error
    std::optional<std::int64_t> hint_override;  // the size that compilers should optimize for
};

/// A size of an input that is an unbacked number: the graph is the same for all sizes, 0 and 1 among them.
struct UnbackedSize {
    const Expression* number;
    Source* source;     // where the size is read
    std::int64_t size;  // in this call
    Ref<> shape_id;     // sizes with the same one are equal; empty if it has none
};

}  // namespace stator
