/// Dtypes, devices and layouts: as Python objects, as text, and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// `torch.Tensor` and `torch.nn.Parameter`; never freed.
PyTypeObject* tensor_class();
PyTypeObject* parameter_class();

/// `torch.float32`, ...: never freed.
Borrowed<> dtype_object(Dtype dtype);
Borrowed<> layout_object(Layout layout);
Ref<> device_object(Device device);

/// Empty if the object is of another type, including those that PyTorch would convert, such as a string.
std::optional<Dtype> as_dtype(Borrowed<> object);
std::optional<Layout> as_layout(Borrowed<> object);
std::optional<Device> as_device(Borrowed<> object);
/// A device by its name: `cpu`, `cuda:0`. Empty for other names.
std::optional<Device> parse_device(std::string_view name);
enum class MemoryFormat : std::int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
std::optional<MemoryFormat> as_memory_format(Borrowed<> object);

/// Whether this is `torch.Size`.
bool is_size(Borrowed<> object);
PyTypeObject* size_class();
/// A new `torch.Size`.
Ref<> size_object(const Dims& sizes);

/// `f32`, `i64`, `b8`: as graphs print them.
std::string short_dtype_name(Dtype dtype);
/// `torch.float32`.
std::string dtype_name(Dtype dtype);
std::string device_name(Device device);
/// The result of `Tensor.type()`: `torch.FloatTensor`, `torch.cuda.HalfTensor`. Empty for tensors without such a
/// name here.
std::string legacy_type_name(const TensorMeta& meta);
std::string layout_name(Layout layout);

}  // namespace stator::torch_room
