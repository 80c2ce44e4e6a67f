/// Indexing: integers, slices, `None` and `...` give a view; tensors and lists of integers choose elements of that
/// view.
#pragma once

#include <optional>
#include <vector>

#include "shape/language/operand.h"

namespace stator::shape {

struct IndexedPart {
    Dims sizes;
    Dims strides;
    Dim storage_offset;
};

/// An index that chooses elements by its contents.
struct Chooser {
    Dims sizes;
    Dims strides;
    /// Of `bool`: how many elements it chooses is not known, and it stands for as many dimensions as it has.
    bool is_mask = false;
    /// A single number inside a tensor, taken out of it to give a view.
    bool is_hidden_number = false;
};

/// Empty for an operand that is neither a tensor of integers or bools nor a list of integers.
std::optional<Chooser> as_chooser(const Operand& index, const TensorMeta& self);

/// One place for each dimension of a part; empty where nothing is chosen.
using Choosers = std::vector<std::optional<Chooser>>;

/// The part that basic indices leave; choosers leave their dimensions as they are. Empty for other kinds of indices,
/// and for those that are out of range.
std::optional<IndexedPart> apply_index(const TensorMeta& self, const Operand& index, Choosers& choosers);

bool has_chooser(const Choosers& choosers);
/// What is chosen, or its number, depends on contents.
bool depends_on_contents(const Choosers& choosers);

/// The sizes of the dimensions behind a mask that is the only chooser.
std::optional<Dims> sizes_behind_mask(const IndexedPart& part, const Choosers& choosers);

/// Sizes and strides after choosing elements of a part; nothing that depends on contents is among the choosers.
std::optional<IndexedPart> choose_elements(const IndexedPart& part, const Choosers& choosers);

}  // namespace stator::shape
