/// A copy of the state that a graph may change before it fails, to be restored: contents of tensors, their autograd
/// state, and the random state. Made on every call of such a graph, so it is small and cheap.
#pragma once

#include <Python.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// How many bytes of tensors are copied on every call, if there is an alternative.
inline constexpr std::size_t kMostKept = std::size_t{64} << 10;

/// The size of a copy of a tensor's contents; none if it is not in CPU memory.
std::optional<std::size_t> bytes_to_keep(Borrowed<> tensor);
/// Whether a recorded write also changes the history of another tensor: this one is a view, or has hooks.
bool shares_history(Borrowed<> tensor);

class KeptState {
  public:
    /// With room for this many bytes of contents.
    explicit KeptState(std::size_t bytes);
    ~KeptState();
    KeptState(const KeptState&) = delete;
    KeptState& operator=(const KeptState&) = delete;

    /// Of the default generators of these devices.
    void keep_random_numbers(std::span<const Device> devices);
    /// For a tensor that may be written to. Without its contents, only its autograd state is restored.
    void keep(Borrowed<> tensor, bool with_contents);

    /// Restores everything; false if that is not possible, and then nothing was changed.
    bool restore();

  private:
    struct Tensor;
    struct Generator;
    std::vector<Tensor> tensors_;
    std::vector<char> contents_;
    std::vector<Generator> generators_;
    bool is_complete_ = true;
};

}  // namespace stator::torch_room
