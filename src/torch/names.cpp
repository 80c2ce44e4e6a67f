#include "torch/names.h"

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>

#include "base/python_error.h"
#include "torch/errors.h"

namespace stator::torch_room {

static_assert(static_cast<int>(MemoryFormat::ChannelsLast) == static_cast<int>(c10::MemoryFormat::ChannelsLast));
static_assert(static_cast<int>(MemoryFormat::ChannelsLast3d) == static_cast<int>(c10::MemoryFormat::ChannelsLast3d));

PyTypeObject* tensor_class() {
    return reinterpret_cast<PyTypeObject*>(THPVariableClass);
}

PyTypeObject* parameter_class() {
    return reinterpret_cast<PyTypeObject*>(ParameterClass);
}

PyTypeObject* size_class() {
    return &THPSizeType;
}

Borrowed<> dtype_object(Dtype dtype) {
    return reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<c10::ScalarType>(dtype)));
}

Borrowed<> layout_object(Layout layout) {
    return reinterpret_cast<PyObject*>(torch::getTHPLayout(static_cast<c10::Layout>(layout)));
}

Ref<> device_object(Device device) {
    return checked(THPDevice_New(
        c10::Device(static_cast<c10::DeviceType>(device.kind), static_cast<c10::DeviceIndex>(device.index))));
}

std::optional<Dtype> as_dtype(Borrowed<> object) {
    if (!THPDtype_Check(object)) return std::nullopt;
    return static_cast<Dtype>(reinterpret_cast<THPDtype*>(object.get())->scalar_type);
}

std::optional<Layout> as_layout(Borrowed<> object) {
    if (!THPLayout_Check(object)) return std::nullopt;
    return static_cast<Layout>(reinterpret_cast<THPLayout*>(object.get())->layout);
}

std::optional<Device> as_device(Borrowed<> object) {
    if (!THPDevice_Check(object)) return std::nullopt;
    const c10::Device& device = reinterpret_cast<THPDevice*>(object.get())->device;
    return Device{static_cast<DeviceKind>(device.type()), device.index()};
}

std::optional<Device> parse_device(std::string_view name) {
    try {
        c10::Device device{std::string(name)};
        return Device{static_cast<DeviceKind>(device.type()), device.index()};
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

std::optional<MemoryFormat> as_memory_format(Borrowed<> object) {
    if (!THPMemoryFormat_Check(object)) return std::nullopt;
    return static_cast<MemoryFormat>(reinterpret_cast<THPMemoryFormat*>(object.get())->memory_format);
}

bool is_size(Borrowed<> object) {
    return Py_TYPE(object.get()) == &THPSizeType;
}

Ref<> size_object(const Dims& sizes) {
    Ref<> values = checked(PyTuple_New(static_cast<Py_ssize_t>(sizes.size())));
    for (std::size_t i = 0; i < sizes.size(); ++i)
        PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i),
                         checked(PyLong_FromLongLong(sizes[i].value())).release());
    return checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&THPSizeType), values.get()));
}

std::string short_dtype_name(Dtype dtype) {
    switch (static_cast<c10::ScalarType>(dtype)) {
        case c10::ScalarType::Bool:
            return "b8";
        case c10::ScalarType::Byte:
            return "u8";
        case c10::ScalarType::Char:
            return "i8";
        case c10::ScalarType::Short:
            return "i16";
        case c10::ScalarType::Int:
            return "i32";
        case c10::ScalarType::Long:
            return "i64";
        case c10::ScalarType::Half:
            return "f16";
        case c10::ScalarType::BFloat16:
            return "bf16";
        case c10::ScalarType::Float:
            return "f32";
        case c10::ScalarType::Double:
            return "f64";
        case c10::ScalarType::ComplexHalf:
            return "c32";
        case c10::ScalarType::ComplexFloat:
            return "c64";
        case c10::ScalarType::ComplexDouble:
            return "c128";
        default:
            return c10::toString(static_cast<c10::ScalarType>(dtype));
    }
}

std::string dtype_name(Dtype dtype) {
    return std::string("torch.") + reinterpret_cast<THPDtype*>(dtype_object(dtype).get())->name;
}

std::string legacy_type_name(const TensorMeta& meta) {
    auto device = static_cast<c10::DeviceType>(meta.device.kind);
    bool has_name = device == c10::DeviceType::CPU || device == c10::DeviceType::CUDA;
    if (!has_name || static_cast<c10::Layout>(meta.layout) != c10::kStrided || meta.dispatch_keys != 0) return "";
    std::string place = device == c10::DeviceType::CUDA ? "torch.cuda." : "torch.";
    return place + c10::toString(static_cast<c10::ScalarType>(meta.dtype)) + "Tensor";
}

std::string device_name(Device device) {
    return c10::Device(static_cast<c10::DeviceType>(device.kind), static_cast<c10::DeviceIndex>(device.index)).str();
}

std::string layout_name(Layout layout) {
    return reinterpret_cast<THPLayout*>(layout_object(layout).get())->name;
}

}  // namespace stator::torch_room
