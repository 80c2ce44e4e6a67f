/// The dimensions of a reduction.
#pragma once

#include <optional>
#include <vector>

#include "shape/language/operand.h"

namespace stator::shape {

/// For each dimension whether it is reduced: all of them if none is given or the list is empty. Empty if PyTorch would
/// reject them: out of range, or duplicate.
std::optional<std::vector<bool>> chosen_dimensions(const TensorMeta& self, const Operand& dimensions);

/// The sizes after a reduction.
std::optional<Dims> reduced_sizes(const TensorMeta& self, const Operand& dimensions, const Operand& keep);

/// The class of the named tuple that an operation returns: `torch.return_types.max`.
PyTypeObject* return_type(const char* name);

}  // namespace stator::shape
