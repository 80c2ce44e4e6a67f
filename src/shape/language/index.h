/// Indexing: integers, slices, `None` and `...` create a view; tensors and lists of integers select elements of that
/// view.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "shape/language/call.h"
#include "shape/language/operand.h"

namespace stator::shape {

struct IndexedPart {
    Dims sizes;
    Dims strides;
    Dim storage_offset;
};

/// An index that selects elements by its data.
struct Chooser {
    Dims sizes;
    Dims strides;
    /// A bool mask: the number of selected elements is unknown, and it indexes as many dimensions as it has.
    bool is_mask = false;
    /// A tensor with a single integer, which is read to create a view.
    bool is_hidden_number = false;
    /// What the program gave.
    Operand given = {};
};

/// Empty for an operand that is neither a tensor of integers or bools nor a list of integers.
std::optional<Chooser> as_chooser(const Operand& index, const TensorMeta& self);

/// One for each dimension of a part; empty for dimensions that are not indexed by a tensor.
using Choosers = std::vector<std::optional<Chooser>>;

/// The part that basic indices select; dimensions indexed by tensors are unchanged. Empty for other kinds of indices,
/// and for indices out of range.
std::optional<IndexedPart> apply_index(const TensorMeta& self, const Operand& index, Choosers& choosers);

bool has_chooser(const Choosers& choosers);
/// Whether the result, or its size, depends on data.
bool depends_on_contents(const Choosers& choosers);

/// The sizes of what a mask selects that is the only tensor index, if values of these sizes fit: where they have a
/// dimension for the number of selected elements, it is theirs. (PyTorch counts the elements when it assigns.)
std::optional<Dims> sizes_for_mask(const IndexedPart& part, const Choosers& choosers, const Dims& values);

/// Replaces masks by the positions of their true elements, of which there are so many.
void find_positions(Choosers& choosers, const std::function<Dim(const Operand& mask)>& count);

/// `nonzero(as_tuple=True)`: for each dimension the positions of the elements that are not zero.
bool returns_positions(Call& call, const Operand& tensor);

/// Sizes and strides after selecting elements of a part; no index may depend on data.
std::optional<IndexedPart> choose_elements(const IndexedPart& part, const Choosers& choosers);

}  // namespace stator::shape
