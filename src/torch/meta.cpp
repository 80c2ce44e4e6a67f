#include "torch/meta.h"

#include <algorithm>

#include "base/text.h"
#include "torch/names.h"
#include "torch/wrappers.h"

namespace stator::torch_room {

namespace {

struct Mixer {
    std::size_t state = 0x9e3779b97f4a7c15;
    void add(std::uint64_t word) {
        state = (state ^ word) * 0xff51afd7ed558ccd;
        state ^= state >> 32;
    }
};

std::string print_dims(const Dims& dims) {
    return "[" + joined(dims, [](Dim dim) { return stator::print(dim); }) + "]";
}

/// In this call. (Printing assumes nothing.)
bool is_contiguous(const TensorMeta& meta) {
    std::int64_t expected = 1;
    for (std::size_t i = meta.sizes.size(); i-- > 0;) {
        if (meta.sizes[i].hint() == 1) continue;
        if (meta.strides[i].hint() != expected) return false;
        expected *= meta.sizes[i].hint();
    }
    return true;
}

bool are_identical(const Dims& left, const Dims& right) {
    return std::ranges::equal(left, right, {}, &Dim::identity, &Dim::identity);
}

}  // namespace

bool TensorMeta::is_dynamic() const {
    bool is = false;
    for_each_dim(*this, [&](Dim dim) { is = is || !dim.is_constant(); });
    return is;
}

bool operator==(const TensorMeta& left, const TensorMeta& right) {
    return are_identical(left.sizes, right.sizes) && are_identical(left.strides, right.strides) &&
           left.storage_offset.identity() == right.storage_offset.identity() && left.dtype == right.dtype &&
           left.device == right.device && left.layout == right.layout && left.requires_grad == right.requires_grad &&
           left.is_leaf == right.is_leaf && left.dispatch_keys == right.dispatch_keys &&
           left.is_wrapped_number == right.is_wrapped_number && left.python_class == right.python_class &&
           left.prototype == right.prototype;
}

std::size_t hash(const TensorMeta& meta) {
    Mixer mixer;
    for (Dim size : meta.sizes) mixer.add(size.identity());
    for (Dim stride : meta.strides) mixer.add(stride.identity());
    mixer.add(meta.storage_offset.identity());
    mixer.add(reinterpret_cast<std::uintptr_t>(meta.python_class));
    mixer.add(reinterpret_cast<std::uintptr_t>(meta.prototype));
    mixer.add(static_cast<std::uint64_t>(meta.dtype) | static_cast<std::uint64_t>(meta.layout) << 8 |
              static_cast<std::uint64_t>(meta.device.kind) << 16 |
              static_cast<std::uint64_t>(static_cast<std::uint16_t>(meta.device.index)) << 24 |
              std::uint64_t{meta.requires_grad} << 40 | std::uint64_t{meta.is_leaf} << 41 |
              std::uint64_t{meta.is_wrapped_number} << 42 | meta.dispatch_keys << 43);
    return mixer.state;
}

std::string print(const TensorMeta& meta) {
    std::string text = short_dtype_name(meta.dtype) + print_dims(meta.sizes);
    if (meta.strides.size() == meta.sizes.size() && !is_contiguous(meta))
        text += " strides " + print_dims(meta.strides);
    if (meta.storage_offset.hint() != 0) text += " offset " + stator::print(meta.storage_offset);
    if (meta.device.kind != DeviceKind{}) text += " " + device_name(meta.device);
    if (meta.layout != Layout{}) text += " " + layout_name(meta.layout);
    if (meta.requires_grad) text += meta.is_leaf ? " requires_grad" : " grad_fn";
    const std::pair<std::uint64_t, const char*> traits[] = {{trait::kConjugate, " conjugate"},
                                                            {trait::kNegative, " negative"},
                                                            {trait::kZero, " zero"},
                                                            {trait::kInference, " inference"},
                                                            {trait::kFunctorch, " functorch"},
                                                            {trait::kPythonDispatch, " torch_dispatch"},
                                                            {trait::kFunctional, " functional"},
                                                            {trait::kNested, " nested"}};
    for (auto [bit, name] : traits)
        if (meta.dispatch_keys & bit) text += name;
    if (meta.is_wrapped_number) text += " number";
    if (meta.python_class != nullptr && meta.python_class != tensor_class()) text += " " + type_name(meta.python_class);
    return text;
}

}  // namespace stator::torch_room
