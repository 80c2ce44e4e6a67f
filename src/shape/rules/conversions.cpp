/// Other dtypes and devices: `to`, `float`, `type_as`, `copy_`.
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;
using torch_room::MemoryFormat;

/// The tensor itself if nothing changes, otherwise a copy that keeps the layout or takes the requested one.
bool converted(Call& call, Dtype dtype, Device device, bool copy = false,
               MemoryFormat format = MemoryFormat::Preserve) {
    const TensorMeta& self = *call[0].tensor();
    if (!torch_room::is_ordinary(dtype)) return false;
    bool is_last = is_like_channels_last(self.sizes, self.strides);
    bool wants_last = format == MemoryFormat::ChannelsLast || format == MemoryFormat::ChannelsLast3d;
    if (wants_last && self.dimensions() != (format == MemoryFormat::ChannelsLast ? 4u : 5u)) return false;
    bool has_format = format == MemoryFormat::Preserve || is_last == wants_last;
    if (dtype == self.dtype && device == self.device && !copy && has_format) return call.returns_same(call[0]);
    Dims strides = format == MemoryFormat::Preserve ? preserved_strides(self)
                   : wants_last                     ? channels_last_strides(self.sizes)
                                                    : contiguous_strides(self.sizes);
    return call.returns(call.fresh(self.sizes, std::move(strides), dtype, device), call.records({&self}));
}

/// Moving between devices is left to the fallback: a device index may have to be filled in.
std::optional<Device> same_device(const Operand& operand, const TensorMeta& self) {
    auto device = operand.device();
    if (!device) return std::nullopt;
    if (device->kind == torch_room::DeviceKind{} && self.device.kind == torch_room::DeviceKind{}) return self.device;
    return *device == self.device ? device : std::nullopt;
}

/// `to(dtype)`, `to(device, dtype)`, `to(other)`, with `non_blocking` and `copy`.
bool to(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    Dtype dtype = self->dtype;
    Device device = self->device;
    // Positional forms share slots, keywords have their own.
    std::vector<const Operand*> positional;
    for (std::size_t i = 1; i <= 4; ++i)
        if (call[i].is_given()) positional.push_back(&call[i]);
    bool copy = false;
    std::size_t next = 0;
    bool has_dtype = false;
    if (next < positional.size()) {
        const Operand& first = *positional[next];
        if (first.tensor() != nullptr) {
            if (first.tensor()->device != device) return false;
            dtype = first.tensor()->dtype;
            has_dtype = true;
            ++next;
        } else if (first.dtype()) {
            dtype = *first.dtype();
            has_dtype = true;
            ++next;
        } else if (first.device()) {
            auto requested = same_device(first, *self);
            if (!requested) return false;
            device = *requested;
            ++next;
            if (next < positional.size() && (positional[next]->dtype() || positional[next]->is_none())) {
                if (positional[next]->dtype()) dtype = *positional[next]->dtype();
                has_dtype = true;
                ++next;
            }
        } else {
            return false;
        }
    }
    if (next < positional.size() && !positional[next++]->boolean()) return false;
    if (next < positional.size()) {
        auto wants_copy = positional[next++]->boolean();
        if (!wants_copy) return false;
        copy = *wants_copy;
    }
    if (next != positional.size()) return false;
    const Operand &device_keyword = call[5], &dtype_keyword = call[6], &copy_keyword = call[8];
    if (device_keyword.is_given() && !device_keyword.is_none()) {
        auto requested = same_device(device_keyword, *self);
        if (!positional.empty() || !requested) return false;
        device = *requested;
    }
    if (dtype_keyword.is_given() && !dtype_keyword.is_none()) {
        if (has_dtype || !dtype_keyword.dtype()) return false;
        dtype = *dtype_keyword.dtype();
    }
    if (call[7].is_given() && !call[7].boolean()) return false;
    if (copy_keyword.is_given()) {
        if (!copy_keyword.boolean()) return false;
        copy = *copy_keyword.boolean();
    }
    auto format = call[9].is_absent() ? std::optional(MemoryFormat::Preserve) : call[9].memory_format();
    if (!format) return false;
    if (positional.empty() && !device_keyword.is_given() && !dtype_keyword.is_given() && call[9].is_absent())
        return false;
    return converted(call, dtype, device, copy, *format);
}

/// `float()`, `long()` and so on: the variant is the dtype.
bool to_fixed(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto format = call[1].is_absent() ? std::optional(MemoryFormat::Preserve) : call[1].memory_format();
    return self != nullptr && format &&
           converted(call, static_cast<Dtype>(call.variant()), self->device, false, *format);
}

bool type_as(Call& call) {
    const TensorMeta *self = call[0].tensor(), *other = call[1].tensor();
    if (self == nullptr || other == nullptr || other->device != self->device) return false;
    return converted(call, other->dtype, self->device);
}

/// `type(dtype)`; without an argument, or with the name of a class, it is another operation.
bool to_type(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto type = call[1].dtype();
    if (self == nullptr || !type || (call[2].is_given() && !call[2].boolean())) return false;
    return converted(call, *type, self->device);
}

/// `cpu()` for a tensor on the CPU.
bool to_cpu(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && is_on_cpu(*self) && call.returns_same(call[0]);
}

bool copy_into(Call& call) {
    const TensorMeta *self = call[0].tensor(), *source = call[1].tensor();
    if (self == nullptr || source == nullptr || (call[2].is_given() && !call[2].boolean())) return false;
    auto sizes = broadcast(self->sizes, source->sizes);
    if (!sizes || *sizes != self->sizes) return false;
    return call.returns_written(call[0], call.records({self, source}));
}

}  // namespace

void add_conversion_rules(Registry& registry) {
    // The first four are positional and mean different things in different forms; keywords have their own slots.
    registry.add_neutral("Tensor.to", "self *1? *2? *3? *4? * device? dtype? non_blocking? copy? memory_format?", to);
    const std::pair<const char*, Dtype> fixed[] = {
        {"Tensor.float", kFloat},       {"Tensor.double", kDouble},       {"Tensor.half", kHalf},
        {"Tensor.bfloat16", kBFloat16}, {"Tensor.long", kLong},           {"Tensor.int", kInt},
        {"Tensor.short", kShort},       {"Tensor.bool", kBool},           {"Tensor.char", kChar},
        {"Tensor.byte", kByte},         {"Tensor.cfloat", kComplexFloat}, {"Tensor.cdouble", kComplexDouble}};
    for (auto [name, type] : fixed)
        registry.add_neutral(name, "self * memory_format?", to_fixed, static_cast<int>(type));
    registry.add_neutral("Tensor.type", "self dtype? non_blocking?", to_type);
    registry.add_neutral("Tensor.cpu", "self", to_cpu);
    registry.add_neutral("Tensor.type_as", "self other", type_as);
    registry.add_neutral("Tensor.copy_", "self src non_blocking?", copy_into);
}

}  // namespace stator::shape
