/// The state that a graph may change before it fails, kept so that it can be put back: what tensors hold, how autograd
/// sees them, and the random numbers to come. Kept on every call of such a graph, so it is little and costs little.
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

/// Bytes of tensors that are worth to be copied on every call, where there is another way out.
inline constexpr std::size_t kMostKept = std::size_t{64} << 10;

/// The size of a copy of what a tensor holds; none if it lies elsewhere than in the processor's memory.
std::optional<std::size_t> bytes_to_keep(Borrowed<> tensor);
/// Whether a write that autograd records gives another tensor another history too: this one is a view, or has hooks.
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
    /// Of a tensor that may be written to. Without its contents, only what autograd knows of it is put back.
    void keep(Borrowed<> tensor, bool with_contents);

    /// Puts everything back; false if that is not possible, and then nothing was done.
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
