/// Reading a real tensor, and the guard on one. Nothing here runs Python code for a plain tensor.
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

/// `torch.Tensor` or any subclass. Asks the type alone: no `__instancecheck__`, no `__class__`.
bool is_tensor(Borrowed<> object);
/// `torch.Tensor` or `torch.nn.Parameter` themselves.
bool is_plain_tensor(Borrowed<> object);

/// Everything that is known of a tensor without its data. Throws `PythonError` where PyTorch can't say (a nested
/// tensor has no sizes).
TensorMeta read_meta(Borrowed<> tensor);

/// A view of all of it, as a `torch.Tensor` whatever its class.
Ref<> plain_view(Borrowed<> tensor);

/// Another tensor that looks the same, in memory of its own; empty where there is none (it has no strides).
Ref<> copy_with_own_memory(Borrowed<> tensor);

/// Where two tensors may share memory: equal for views of one storage, null for tensors without one.
const void* storage_identity(Borrowed<> tensor);
/// The memory between a tensor's first and last element; empty for anything else, and for tensors without data.
std::pair<std::uintptr_t, std::uintptr_t> memory_of(Borrowed<> tensor);
/// The element of its memory where a tensor begins; -1 for anything else, and for tensors without one.
std::int64_t storage_offset(Borrowed<> tensor);

/// How autograd stands to a tensor, beyond `requires_grad`.
struct AutogradState {
    bool is_leaf = true;
    /// A view that was made by an operation with several results, or while gradients were off: once it or its base is
    /// written to, autograd gives it up.
    bool is_loose_view = false;
    /// That has happened: using it fails.
    bool is_given_up = false;
    /// Writing to it fails where gradients are recorded: a leaf, a view of one, or a loose view.
    bool refuses_writes = false;

    friend bool operator==(AutogradState, AutogradState) = default;
};
/// Some 5 ns; `tensor` may be anything.
AutogradState read_autograd_state(Borrowed<> tensor);

/// What a plain tensor looks like in memory: its sizes, its strides, and a few words with dtype, device and key set. A
/// tensor that looks like this has all of that; one that does not may still be alike in everything that matters.
struct TensorImage {
    static constexpr std::size_t kMostDimensions = 5;  // more lie elsewhere

    std::array<std::uint64_t, 2 * kMostDimensions + 3> words{};
    bool is_there = false;

    bool operator==(const TensorImage&) const = default;
};

/// What a graph input has to be again for an entry to be used again.
struct TensorCheck {
    PyTypeObject* type = nullptr;     // borrowed: an entry's guards keep the classes they met
    std::uint64_t dispatch_keys = 0;  // the whole key set: device type, layout, conjugate, inference, subclass, ...
    Dtype dtype{};
    Device device;
    bool requires_grad = false;
    bool has_strides = true;
    std::uint32_t dimensions = 0;
    std::vector<std::int64_t> sizes_and_strides;  // sizes, then strides
    TensorImage image;

    bool operator==(const TensorCheck&) const = default;
};

TensorCheck make_check(Borrowed<> tensor);

/// Some 10 ns; allocates nothing, raises nothing. `object` may be anything.
bool matches(Borrowed<> object, const TensorCheck& check);

/// Whether comparing may ask Python code, as for a subclass that computes its sizes.
bool may_run_python(const TensorCheck& check);

/// What differs, in words: `size of dimension 0 is 9, was 8`. Empty if nothing does.
std::string explain_mismatch(Borrowed<> object, const TensorCheck& check);

/// `torch.Tensor f32[8, 4]`, as guards print it.
std::string print(const TensorCheck& check);

}  // namespace stator::torch_room
