/// Sizes and strides: contiguity, broadcasting, and the memory layout of results.
///
/// Strides of tensors whose sizes depend on data are those that they have if no such size is 0 or 1. The graph computes
/// real tensors with real strides; the program does not get to see the ones that are computed here.
#pragma once

#include <optional>
#include <span>

#include "torch/meta.h"

namespace stator::shape {

using torch_room::Dim;
using torch_room::Dims;
using torch_room::TensorMeta;

Dim element_count(const Dims& sizes);
Dims contiguous_strides(const Dims& sizes);
/// Whether there are no elements. False where that depends on data; PyTorch may raise then.
bool is_known_empty(const Dims& sizes);
/// Channels last: for four dimensions NHWC, for five NDHWC.
Dims channels_last_strides(const Dims& sizes);

bool is_contiguous(const Dims& sizes, const Dims& strides);
/// The same, but false where that depends on data.
bool is_known_contiguous(const Dims& sizes, const Dims& strides);
bool has_unbacked(const Dims& sizes);
/// As PyTorch's `is_contiguous(memory_format=channels_last)`.
bool is_channels_last(const Dims& sizes, const Dims& strides);
/// Whether operations that propagate memory formats (convolutions, interpolation) would propagate channels last from
/// this tensor.
bool is_like_channels_last(const Dims& sizes, const Dims& strides);
/// Strides of a new tensor that is channels last if `like` is, and otherwise contiguous: `empty` with the
/// `suggest_memory_format` of `like`.
Dims suggested_strides(const TensorMeta& like, const Dims& sizes);
/// Every element has its own memory, and there are no gaps.
bool is_dense(const Dims& sizes, const Dims& strides);
/// Whether it has no elements, and the strides of a new tensor of its sizes: PyTorch and FakeTensor agree only for such
/// empty tensors.
bool is_plainly_empty(const TensorMeta& meta);
/// Whether a dimension with fewer than two elements has a stride that it would not have in a new tensor. Operations
/// differ in whether they keep such a stride.
bool has_idle_strides(const TensorMeta& meta);
/// Whether elements may share memory: PyTorch rejects writes to such a tensor.
bool may_overlap_itself(const TensorMeta& meta);

/// Empty if the shapes don't broadcast.
std::optional<Dims> broadcast(const Dims& left, const Dims& right);
/// Strides of a tensor that is expanded to a larger shape: zero for expanded dimensions.
Dims expanded_strides(const TensorMeta& meta, const Dims& sizes);

/// Strides of the result of an elementwise operation on these tensors, as TensorIterator computes them. Python numbers
/// count as inputs of another shape.
Dims elementwise_strides(std::span<const TensorMeta* const> inputs, const Dims& sizes, bool with_numbers = false);
/// Strides of `empty_like` with `torch.preserve_format`.
Dims preserved_strides(const TensorMeta& meta);

/// Strides of a view with other sizes; empty if a copy is needed.
std::optional<Dims> view_strides(const Dims& old_sizes, const Dims& old_strides, const Dims& new_sizes);
/// Replaces the one `-1`; empty if the sizes don't match the number of elements.
std::optional<Dims> resolve_sizes(const Dims& requested, Dim elements);

/// The sizes of a tensor for operations along a dimension: a scalar has one dimension of size one.
inline Dims at_least_one_dimension(const Dims& sizes) {
    return sizes.empty() ? Dims{Dim(1)} : sizes;
}

/// A non-negative dimension index; empty if it is out of range. A scalar counts as one dimension.
std::optional<std::size_t> wrap_dimension(Dim dimension, std::size_t dimensions);

}  // namespace stator::shape
