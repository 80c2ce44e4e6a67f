#include "shape/derived_strides.h"

namespace stator::shape {

namespace {

std::vector<std::int64_t> hints_of(const Dims& dims) {
    std::vector<std::int64_t> hints;
    for (Dim dim : dims) hints.push_back(dim.hint());
    return hints;
}

}  // namespace

void derive_strides(torch_room::DynamicSizes& dynamic, torch_room::TensorMeta& meta) {
    dynamic.stride_follows.assign(meta.dimensions(), -1);
    const std::vector<std::int64_t> strides = hints_of(meta.strides);
    const std::vector<std::int8_t> followed = torch_room::followed_by_strides(hints_of(meta.sizes), strides);
    // A stride may follow from one that follows itself: those are before it in this order.
    for (std::size_t i : torch_room::by_stride(strides)) {
        if (followed[i] < 0 || dynamic.has_dynamic_stride(i)) continue;
        const auto other = static_cast<std::size_t>(followed[i]);
        const Dim derived = meta.sizes[other] * meta.strides[other];
        if (derived.is_constant()) continue;
        dynamic.stride_follows[i] = followed[i];
        meta.strides[i] = derived;
    }
}

}  // namespace stator::shape
