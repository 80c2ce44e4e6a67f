#include "torch/sizes.h"

#include "torch/implementation.h"

namespace stator::torch_room {

namespace {

std::uint64_t key_of(const std::int64_t* sizes, std::size_t count) {
    std::uint64_t key = count;
    for (std::size_t i = 0; i < count; ++i) key = (key ^ static_cast<std::uint64_t>(sizes[i])) * 0x9E3779B97F4A7C15ull;
    return key;
}

}  // namespace

std::optional<std::uint64_t> sizes_key(Borrowed<> object) {
    if (!is_tensor(object)) return std::nullopt;
    const c10::TensorImpl& tensor = *implementation(object);
    if (tensor.key_set().has(c10::DispatchKey::Python) || tensor.key_set().has(c10::DispatchKey::NestedTensor) ||
        tensor.has_symbolic_sizes_strides())
        return std::nullopt;
    try {
        auto sizes = tensor.sizes();
        return key_of(sizes.data(), sizes.size());
    } catch (...) {
        PyErr_Clear();
        return std::nullopt;
    }
}

std::uint64_t sizes_key(const TensorCheck& check) {
    return key_of(check.sizes_and_strides.data(), check.dimensions);
}

}  // namespace stator::torch_room
