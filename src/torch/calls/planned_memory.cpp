#include "torch/calls/planned_memory.h"

#include <c10/core/CPUAllocator.h>

#include <memory>
#include <utility>

#include "base/check.h"
#include "torch/calls/row_plan.h"

namespace stator::torch_room {

at::Tensor MemoryChunk::make_tensor(const TensorLook& look, std::size_t bytes) {
    c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(address_, c10::Device(c10::kCPU)),
                         c10::GetAllocator(c10::kCPU), /*resizable=*/true);
    storages_.push_back(storage);
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(look.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(look.sizes, look.strides);
    return tensor;
}

void MemoryChunk::take() {
    data_ = c10::GetCPUAllocator()->allocate(bytes_);
    if (data_.get() == address_) return;
    address_ = data_.get();
    // They don't own it, so nothing is freed: `set_data_ptr` takes some times as long.
    for (const c10::Storage& storage : storages_) {
        const bool is_set =
            storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().unsafe_reset_data_and_ctx(address_);
        STATOR_CHECK(is_set, "no tensor owns memory that is taken anew");
    }
}

void MemoryChunk::leave_to_tensors() {
    if (!is_taken()) return;
    const auto shared = std::make_shared<c10::DataPtr>(std::move(data_));
    using Owner = std::shared_ptr<c10::DataPtr>;
    auto drop = [](void* owner) { delete static_cast<Owner*>(owner); };
    for (const c10::Storage& storage : storages_)
        storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
            c10::DataPtr(address_, new Owner(shared), drop, c10::Device(c10::kCPU)));
}

}  // namespace stator::torch_room
