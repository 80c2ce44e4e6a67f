/// Basic indexing: integers, slices, `None` and `...`, which give a view.
#pragma once

#include <optional>

#include "shape/operand.h"

namespace stator::shape {

struct IndexedPart {
    Dims sizes;
    Dims strides;
    Dim storage_offset;
};

/// Empty for other kinds of indices, and for those that are out of range.
std::optional<IndexedPart> apply_basic_index(const TensorMeta& self, const Operand& index);

}  // namespace stator::shape
