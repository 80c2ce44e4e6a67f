/// The levels of functorch: each function transform (`torch.vmap`, `torch.func.grad`, ...) that is running on this
/// thread has one, and every operation goes through all of them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// The levels that a trace has entered. They are on PyTorch's stack only while an operation is run inside of them: the
/// tracer's other operations are not to be transformed.
class TransformLevels {
  public:
    TransformLevels() = default;
    ~TransformLevels();
    TransformLevels(const TransformLevels&) = delete;
    TransformLevels& operator=(const TransformLevels&) = delete;

    std::size_t depth() const { return layers_.size(); }
    /// Leaves all levels, and restores the state that functions of functorch have changed since the first was entered.
    void leave();

    /// Puts the levels on PyTorch's stack while it lives. Levels that are entered or left meanwhile are taken over.
    class Resumed {
      public:
        explicit Resumed(TransformLevels& levels);
        ~Resumed();
        Resumed(const Resumed&) = delete;
        Resumed& operator=(const Resumed&) = delete;

      private:
        TransformLevels& levels_;
    };

  private:
    void resume();
    void suspend();

    std::vector<Ref<>> layers_;  // the innermost one last; empty while they are on PyTorch's stack
};

/// The state of forward-mode differentiation on this thread, apart from its tensors.
struct ForwardMode {
    bool has_level = false;  // `torch.autograd.forward_ad.dual_level`
    bool is_enabled = true;

    static ForwardMode current();
    void restore() const;
    bool operator==(const ForwardMode&) const = default;
};

struct GlobalState;

/// Whether a function transform was running in this state.
bool has_transforms(const GlobalState& state);
/// Why a compiled function that a running transform calls is not captured; empty if none is running.
std::string call_inside_of_transform();
/// How many levels this thread is inside of.
std::size_t transform_depth();
/// Leaves the levels above `depth`, which a graph has entered before it failed.
void leave_transforms(std::size_t depth);

/// The tensor inside of functorch's wrappers; the tensor itself if there are none.
Ref<> innermost_tensor(Borrowed<> tensor);

/// Metadata of a FakeTensor that functorch may have wrapped, as the program would see it of the real tensor.
TensorMeta read_wrapped_meta(Borrowed<> tensor);

}  // namespace stator::torch_room
