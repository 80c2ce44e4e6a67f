/// What is known of a tensor without its data: the currency of graphs, shapes and guards. Plain structs, no PyTorch.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

namespace stator::torch_room {

/// A size, a stride or an offset. An integer today; tomorrow also an expression over symbols, which is why nobody may
/// use it as a plain integer without asking `is_known` first.
class Dim {
  public:
    constexpr Dim(std::int64_t value = 0) : value_(value) {}
    constexpr bool is_known() const { return true; }
    /// The integer; only where `is_known`.
    constexpr std::int64_t value() const { return value_; }
    friend constexpr bool operator==(Dim left, Dim right) { return left.value_ == right.value_; }

  private:
    std::int64_t value_;
};

using Dims = std::vector<Dim>;

/// Numbers as in `c10::ScalarType`, `c10::DeviceType` and `c10::Layout`, so that no translation is needed.
enum class Dtype : std::int8_t {};
enum class DeviceKind : std::int8_t {};
enum class Layout : std::int8_t {};

struct Device {
    DeviceKind kind{};
    std::int16_t index = -1;
    friend bool operator==(const Device&, const Device&) = default;
};

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
    /// Bits of the dispatch key set that change what operations do: conjugate, negative, inference, functorch, ...
    std::uint64_t dispatch_keys = 0;
    /// A zero-dimensional tensor wrapped around a Python number takes part in type promotion as a number.
    bool is_wrapped_number = false;
    /// `torch.Tensor`, `torch.nn.Parameter` or another subclass. Borrowed: classes outlive traces.
    PyTypeObject* python_class = nullptr;

    friend bool operator==(const TensorMeta&, const TensorMeta&) = default;
};

/// `f32[8, 4]`, with what is unusual behind it.
std::string print(const TensorMeta& meta);

}  // namespace stator::torch_room
