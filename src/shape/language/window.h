/// Sizes of what a window leaves as it moves over an input: convolutions and pooling.
#pragma once

#include <optional>

#include "shape/language/operand.h"

namespace stator::shape {

/// One number for each spatial dimension; one number stands for all of them. `missing` where the argument is left out.
std::optional<Dims> for_each_dimension(const Operand& operand, std::size_t spatial, Dim missing);

/// The sizes after convolving; empty where a size would be negative or the kernel does not fit.
std::optional<Dims> convolved_sizes(const Dims& input, const Dims& kernel, const Dims& stride, const Dims& padding,
                                    const Dims& dilation);

/// One size after pooling, rounded up if `ceil_mode`.
Dim pooled_size(Dim input, Dim kernel, Dim padding, Dim stride, Dim dilation, bool ceil_mode);

}  // namespace stator::shape
