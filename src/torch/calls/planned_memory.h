/// Memory of planned results. For the files of this room only; it includes PyTorch's headers.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstddef>
#include <vector>

namespace stator::torch_room {

struct TensorLook;

/// Memory for results that follow each other. The tensors are made once; the memory is there only while one of them is
/// in use.
class MemoryChunk {
  public:
    explicit MemoryChunk(std::size_t bytes) : bytes_(bytes) {}

    std::size_t bytes() const { return bytes_; }
    bool is_taken() const { return static_cast<bool>(data_); }

    /// A tensor at the beginning of the memory.
    at::Tensor make_tensor(const TensorLook& look, std::size_t bytes);

    void take();
    /// None of the tensors is in use.
    void give_back() { data_.clear(); }
    /// The program may have some of the tensors: from now on they own the memory, which is not used for others.
    void leave_to_tensors();

  private:
    std::size_t bytes_;
    c10::DataPtr data_;                   // null while no tensor is in use
    void* address_ = nullptr;             // that the tensors have: of the last time
    std::vector<c10::Storage> storages_;  // of the tensors
};

}  // namespace stator::torch_room
