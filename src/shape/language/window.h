/// Sizes of the results of sliding windows: convolutions and pooling.
#pragma once

#include <optional>

#include "shape/language/operand.h"

namespace stator::shape {

/// One number for each spatial dimension; a single number applies to all of them. `missing` if the argument is omitted.
std::optional<Dims> for_each_dimension(const Operand& operand, std::size_t spatial, Dim missing);

/// The sizes after a convolution; empty if a size would be negative or the kernel does not fit.
std::optional<Dims> convolved_sizes(const Dims& input, const Dims& kernel, const Dims& stride, const Dims& padding,
                                    const Dims& dilation);

/// One size after pooling, rounded up if `ceil_mode`.
Dim pooled_size(Dim input, Dim kernel, Dim padding, Dim stride, Dim dilation, bool ceil_mode);

}  // namespace stator::shape
