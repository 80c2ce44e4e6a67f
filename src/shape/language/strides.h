/// Sizes and strides: what is contiguous, how shapes broadcast, how results are laid out in memory.
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
/// Channels last: for four dimensions NHWC, for five NDHWC.
Dims channels_last_strides(const Dims& sizes);

bool is_contiguous(const Dims& sizes, const Dims& strides);
/// As PyTorch's `is_contiguous(memory_format=channels_last)`.
bool is_channels_last(const Dims& sizes, const Dims& strides);
/// Whether memory formats that follow a tensor (convolutions, interpolation) would follow this one to channels last.
bool is_like_channels_last(const Dims& sizes, const Dims& strides);
/// Strides of a new tensor that follows another to channels last, and is contiguous otherwise: `empty` with the
/// `suggest_memory_format` of that one.
Dims suggested_strides(const TensorMeta& like, const Dims& sizes);
/// Every element has a place of its own, and there are no holes.
bool is_dense(const Dims& sizes, const Dims& strides);
/// Has no elements, and the strides of a new tensor of its sizes: PyTorch and FakeTensor then agree about those of
/// what is made of it.
bool is_plainly_empty(const TensorMeta& meta);
/// Some dimension holds fewer than two elements, and has a stride that it would not have in a new tensor. Operations
/// differ in whether they keep such a stride.
bool has_idle_strides(const TensorMeta& meta);
/// Elements may share memory: a write to it is refused by PyTorch.
bool may_overlap_itself(const TensorMeta& meta);

/// Empty where the shapes don't broadcast.
std::optional<Dims> broadcast(const Dims& left, const Dims& right);
/// Strides of a tensor seen under a larger shape: zero where it is expanded.
Dims expanded_strides(const TensorMeta& meta, const Dims& sizes);

/// Strides of what an elementwise operation computes from these tensors, as TensorIterator lays it out. Python numbers
/// count as inputs of another shape.
Dims elementwise_strides(std::span<const TensorMeta* const> inputs, const Dims& sizes, bool with_numbers = false);
/// Strides of `empty_like` with `torch.preserve_format`.
Dims preserved_strides(const TensorMeta& meta);

/// Strides under which the same memory is seen with other sizes; empty where a copy is needed.
std::optional<Dims> view_strides(const Dims& old_sizes, const Dims& old_strides, const Dims& new_sizes);
/// Replaces the one `-1`; empty where the sizes don't fit the number of elements.
std::optional<Dims> resolve_sizes(const Dims& requested, Dim elements);

/// The sizes of a tensor as operations along a dimension see them: a scalar has one dimension of one element.
inline Dims at_least_one_dimension(const Dims& sizes) {
    return sizes.empty() ? Dims{Dim(1)} : sizes;
}

/// An index from the end counted from the front; empty where it is out of range. A scalar counts as one dimension.
std::optional<std::size_t> wrap_dimension(Dim dimension, std::size_t dimensions);

}  // namespace stator::shape
