/// Which dimensions a reduction takes away.
#pragma once

#include <optional>
#include <vector>

#include "shape/language/operand.h"

namespace stator::shape {

/// For each dimension whether it is reduced: all of them if none is named or the list is empty. Empty where PyTorch
/// would refuse: out of range, or named twice.
std::optional<std::vector<bool>> chosen_dimensions(const TensorMeta& self, const Operand& dimensions);

/// The sizes after a reduction.
std::optional<Dims> reduced_sizes(const TensorMeta& self, const Operand& dimensions, const Operand& keep);

/// The class of what an operation with named results returns: `torch.return_types.max`.
PyTypeObject* return_type(const char* name);

}  // namespace stator::shape
