/// What the ATen operations of a call write to, and whether they draw random numbers.
#pragma once

#include <vector>

#include "base/ref.h"

namespace stator::torch_room {

struct OperationEffects {
    /// Storages that an operation writes to, by its schema.
    std::vector<const void*> written;
    bool random = false;
    /// An operation that returns nothing and writes to nothing must have a side effect.
    bool side_effect = false;
};

/// While it lives, operations of this thread run under a FakeTensorMode, and their effects are collected.
class EffectsUnderFakeMode {
  public:
    explicit EffectsUnderFakeMode(Borrowed<> fake_mode);
    ~EffectsUnderFakeMode();
    EffectsUnderFakeMode(const EffectsUnderFakeMode&) = delete;
    EffectsUnderFakeMode& operator=(const EffectsUnderFakeMode&) = delete;

    const OperationEffects& effects() const { return effects_; }

  private:
    OperationEffects effects_;
    Ref<> fake_mode_;
    Ref<> observer_;
};

}  // namespace stator::torch_room
