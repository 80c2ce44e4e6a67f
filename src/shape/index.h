/// Indexing: integers, slices, `None` and `...` give a view; tensors of integers choose elements of that view.
#pragma once

#include <optional>
#include <vector>

#include "shape/operand.h"

namespace stator::shape {

struct IndexedPart {
    Dims sizes;
    Dims strides;
    Dim storage_offset;
};

/// Empty for other kinds of indices, and for those that are out of range.
std::optional<IndexedPart> apply_basic_index(const TensorMeta& self, const Operand& index);

/// As above, where tensors of integers may be among the indices: they leave their dimension as it is and are put
/// into `choosers` at its place. Other places hold null.
std::optional<IndexedPart> apply_basic_index(const TensorMeta& self, const Operand& index,
                                             std::vector<const TensorMeta*>& choosers);

/// Sizes and strides after choosing elements of a part by tensors.
std::optional<IndexedPart> choose_elements(const IndexedPart& part, const std::vector<const TensorMeta*>& choosers);

}  // namespace stator::shape
