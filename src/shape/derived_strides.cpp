#include "shape/derived_strides.h"

#include <algorithm>
#include <numeric>

namespace stator::shape {

namespace {

/// The dimensions, those whose elements are closest in memory first.
std::vector<std::size_t> by_stride(const torch_room::TensorMeta& meta) {
    std::vector<std::size_t> order(meta.dimensions());
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return meta.strides[i].hint(); });
    return order;
}

}  // namespace

void derive_strides(torch_room::DynamicSizes& dynamic, torch_room::TensorMeta& meta) {
    dynamic.stride_follows.assign(meta.dimensions(), -1);
    const std::vector<std::size_t> order = by_stride(meta);
    for (std::size_t at = 0; at < order.size(); ++at) {
        Dim& stride = meta.strides[order[at]];
        for (std::size_t before = at; before-- > 0;) {
            const std::size_t other = order[before];
            const Dim size = meta.sizes[other], step = meta.strides[other];
            if (step.hint() == 0 || size.hint() * step.hint() != stride.hint()) continue;
            const Dim derived = size * step;
            if (!derived.is_constant()) {
                dynamic.stride_follows[order[at]] = static_cast<std::int8_t>(other);
                stride = derived;
            }
            break;
        }
    }
}

}  // namespace stator::shape
