/// Metadata of a tensor, as used by graphs, shapes and guards. Plain structs, no PyTorch.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "number/dim.h"

namespace stator::torch_room {

using stator::Dim;
using stator::Dims;

/// Numbers as in `c10::ScalarType`, `c10::DeviceType` and `c10::Layout`, so that no translation is needed.
enum class Dtype : std::int8_t {};
enum class DeviceKind : std::int8_t {};
enum class Layout : std::int8_t {};

struct Device {
    DeviceKind kind{};
    std::int16_t index = -1;
    friend bool operator==(const Device&, const Device&) = default;
};

/// Properties of a tensor that change what operations do. Bits of `TensorMeta::dispatch_keys`.
namespace trait {
inline constexpr std::uint64_t kConjugate = 1 << 0;
inline constexpr std::uint64_t kNegative = 1 << 1;
inline constexpr std::uint64_t kZero = 1 << 2;
inline constexpr std::uint64_t kInference = 1 << 3;
inline constexpr std::uint64_t kFunctorch = 1 << 4;       // wrapped by vmap, grad, jvp, ...
inline constexpr std::uint64_t kPythonDispatch = 1 << 5;  // a subclass with `__torch_dispatch__`
inline constexpr std::uint64_t kFunctional = 1 << 6;
inline constexpr std::uint64_t kNested = 1 << 7;
}  // namespace trait

/// Everything Stator assumes of a tensor. Two tensors with equal metadata are interchangeable to a captured graph.
struct TensorMeta {
    Dims sizes;
    Dims strides;
    Dim storage_offset = 0;
    Dtype dtype{};
    Device device;
    Layout layout{};
    bool requires_grad = false;
    bool is_leaf = true;
    /// Bits of `trait`.
    std::uint64_t dispatch_keys = 0;
    /// A zero-dimensional tensor wrapped around a Python number takes part in type promotion as a number.
    bool is_wrapped_number = false;
    /// `torch.Tensor`, `torch.nn.Parameter` or another subclass. Borrowed: classes outlive traces.
    PyTypeObject* python_class = nullptr;
    /// Of a wrapper subclass (torch/wrappers.h): an instance that holds FakeTensors, borrowed from the arena that holds
    /// the metadata. Null for any other tensor.
    PyObject* prototype = nullptr;

    std::size_t dimensions() const { return sizes.size(); }
    /// Whether a size, a stride or the offset changes between calls.
    bool is_dynamic() const;

    /// The same in all calls: sizes are equal if they are the same constants or the same expressions.
    friend bool operator==(const TensorMeta& left, const TensorMeta& right);
};

std::size_t hash(const TensorMeta& meta);

/// `f32[8, 4]`, followed by unusual properties.
std::string print(const TensorMeta& meta);

}  // namespace stator::torch_room
