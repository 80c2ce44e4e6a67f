/// Reads real tensors, and the guard on a tensor. Nothing here runs Python code for a plain tensor.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// `torch.Tensor` or any subclass, by the type alone: no `__instancecheck__`, no `__class__`.
bool is_tensor(Borrowed<> object);
/// `torch.Tensor` or `torch.nn.Parameter` themselves.
bool is_plain_tensor(Borrowed<> object);

/// The metadata of a tensor. Throws `PythonError` if PyTorch does not provide it (a nested
/// tensor has no sizes).
TensorMeta read_meta(Borrowed<> tensor);

/// A view of all of it, as a plain `torch.Tensor`.
Ref<> plain_view(Borrowed<> tensor);

/// A new tensor with the same metadata and its own memory; empty if that is not possible (it has no strides).
Ref<> copy_with_own_memory(Borrowed<> tensor);

/// A tensor without dimensions that holds the number, as `torch.tensor(number, dtype=torch.float64)` makes it of a
/// float; of an int it is of dtype int64.
Ref<> wrapped_number(Borrowed<> number);

/// Identifies the storage: equal for views of one storage, null for tensors without one.
const void* storage_identity(Borrowed<> tensor);
/// The memory between a tensor's first and last element; empty for anything else, and for tensors without data.
std::pair<std::uintptr_t, std::uintptr_t> memory_of(Borrowed<> tensor);
/// The storage offset of a tensor; -1 for anything else, and for tensors without one.
std::int64_t storage_offset(Borrowed<> tensor);

/// The autograd state of a tensor, beyond `requires_grad`.
struct AutogradState {
    bool is_leaf = true;
    /// A view created by an operation with several results, or under `no_grad`: autograd forbids its use after it or
    /// its base was written to.
    bool is_loose_view = false;
    /// That has happened: using it raises.
    bool is_given_up = false;
    /// Writing to it raises in grad mode: a leaf, a view of one, or a loose view.
    bool refuses_writes = false;

    friend bool operator==(AutogradState, AutogradState) = default;
};
/// Some 5 ns; `tensor` may be anything.
AutogradState read_autograd_state(Borrowed<> tensor);

/// The memory image of a plain tensor: its sizes, its strides, and a few words with dtype, device and key set. A
/// tensor with the same image has the same metadata; one with another image may still match the guard.
struct TensorImage {
    static constexpr std::size_t kMostDimensions = 5;  // more are stored elsewhere

    std::array<std::uint64_t, 2 * kMostDimensions + 3> words{};
    bool is_there = false;

    bool operator==(const TensorImage&) const = default;
};

/// Which sizes and strides of a tensor change between calls, and the strides that follow from them.
struct DynamicSizes {
    static constexpr std::size_t kMostDimensions = 32;

    std::uint32_t sizes = 0;     // bit i: dimension i has any size of at least 2
    std::uint32_t unbacked = 0;  // bit i: and those below 2
    std::uint32_t strides = 0;   // bit i: dimension i has any stride of at least 2
    /// For each dimension i the dimension j whose `size * stride` is the stride of i; -1 where the stride is fixed.
    std::vector<std::int8_t> stride_follows;

    bool is_dynamic(std::size_t dimension) const { return (sizes >> dimension & 1) != 0; }
    bool has_dynamic_stride(std::size_t dimension) const { return (strides >> dimension & 1) != 0; }
    bool any() const { return (sizes | strides) != 0; }
    std::int64_t least(std::size_t dimension) const { return (unbacked >> dimension & 1) != 0 ? 0 : 2; }
    bool operator==(const DynamicSizes&) const = default;
};

/// The expected metadata of a graph input.
struct TensorCheck {
    PyTypeObject* type = nullptr;     // borrowed: the guards of the entry keep the class alive
    std::uint64_t dispatch_keys = 0;  // the whole key set: device type, layout, conjugate, inference, subclass, ...
    Dtype dtype{};
    Device device;
    bool requires_grad = false;
    bool has_strides = true;
    std::uint32_t dimensions = 0;
    std::vector<std::int64_t> sizes_and_strides;  // sizes, then strides
    DynamicSizes dynamic;                         // those of them that are not compared
    TensorImage image;

    bool operator==(const TensorCheck&) const = default;
};

TensorCheck make_check(Borrowed<> tensor, const DynamicSizes* dynamic = nullptr);

/// The sizes, strides and the storage offset of a tensor are numbered: the size of dimension i is number i.
inline constexpr std::size_t kFirstStride = DynamicSizes::kMostDimensions;
inline constexpr std::size_t kStorageOffset = 2 * DynamicSizes::kMostDimensions;
/// -1 where there is none. Some 3 ns.
std::int64_t layout_number(Borrowed<> tensor, std::size_t number);
/// `.size()[0]`, `.stride()[1]`, `.storage_offset()`.
std::string print_layout_number(std::size_t number);

/// The sizes, and the strides that do not follow from sizes, which differ from what is expected, if nothing else does;
/// else none. A tensor whose dimensions are in another order in memory has no such strides.
std::vector<std::size_t> changed_layout(Borrowed<> tensor, const TensorCheck& check);

/// The dimensions of a tensor, those whose elements are closest in memory first.
std::vector<std::size_t> by_stride(std::span<const std::int64_t> strides);
/// For each dimension the one whose `size * stride` is its stride, and that comes before it in this order; -1 if there
/// is none.
std::vector<std::int8_t> followed_by_strides(std::span<const std::int64_t> sizes,
                                             std::span<const std::int64_t> strides);

/// Some 10 ns; allocates nothing, raises nothing. `object` may be anything.
bool matches(Borrowed<> object, const TensorCheck& check);

/// Whether comparing may run Python code, as for a subclass that computes its sizes.
bool may_run_python(const TensorCheck& check);

/// The difference, in words: `size of dimension 0 is 9, was 8`. Empty if there is none.
std::string explain_mismatch(Borrowed<> object, const TensorCheck& check);

/// `torch.Tensor f32[8, 4]`, as guards print it.
std::string print(const TensorCheck& check);

}  // namespace stator::torch_room
