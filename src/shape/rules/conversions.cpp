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

/// What `to` converts a tensor to.
struct Target {
    Dtype dtype;
    Device device;
    bool has_dtype = false, copy = false;
};

/// The positional forms `to(dtype)`, `to(device, dtype)` and `to(other)`, each followed by `non_blocking` and `copy`.
bool read_positional(const std::vector<const Operand*>& arguments, const TensorMeta& self, Target& target) {
    if (arguments.empty()) return true;
    std::size_t next = 1;
    const Operand& first = *arguments[0];
    if (first.tensor() != nullptr) {
        if (first.tensor()->device != target.device) return false;
        target.dtype = first.tensor()->dtype;
        target.has_dtype = true;
    } else if (first.dtype()) {
        target.dtype = *first.dtype();
        target.has_dtype = true;
    } else if (auto requested = same_device(first, self)) {
        target.device = *requested;
        if (next < arguments.size() && (arguments[next]->dtype() || arguments[next]->is_none())) {
            if (arguments[next]->dtype()) target.dtype = *arguments[next]->dtype();
            target.has_dtype = true;
            ++next;
        }
    } else {
        return false;
    }
    if (next < arguments.size() && !arguments[next++]->boolean()) return false;
    if (next < arguments.size()) {
        auto copy = arguments[next++]->boolean();
        if (!copy) return false;
        target.copy = *copy;
    }
    return next == arguments.size();
}

/// The keywords `device`, `dtype`, `non_blocking` and `copy`.
bool read_keywords(const Call& call, const TensorMeta& self, bool has_positional, Target& target) {
    const Operand &device = call[5], &dtype = call[6], &non_blocking = call[7], &copy = call[8];
    if (device.is_given() && !device.is_none()) {
        auto requested = same_device(device, self);
        if (has_positional || !requested) return false;
        target.device = *requested;
    }
    if (dtype.is_given() && !dtype.is_none()) {
        if (target.has_dtype || !dtype.dtype()) return false;
        target.dtype = *dtype.dtype();
    }
    if (non_blocking.is_given() && !non_blocking.boolean()) return false;
    if (copy.is_given()) {
        if (!copy.boolean()) return false;
        target.copy = *copy.boolean();
    }
    return true;
}

bool to(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    // Positional forms share slots, keywords have their own.
    std::vector<const Operand*> positional;
    for (std::size_t i = 1; i <= 4; ++i)
        if (call[i].is_given()) positional.push_back(&call[i]);
    Target target{self->dtype, self->device};
    if (!read_positional(positional, *self, target)) return false;
    if (!read_keywords(call, *self, !positional.empty(), target)) return false;
    const Operand &device = call[5], &dtype = call[6], &memory_format = call[9];
    auto format = memory_format.is_absent() ? std::optional(MemoryFormat::Preserve) : memory_format.memory_format();
    if (!format) return false;
    if (positional.empty() && !device.is_given() && !dtype.is_given() && memory_format.is_absent()) return false;
    return converted(call, target.dtype, target.device, target.copy, *format);
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
