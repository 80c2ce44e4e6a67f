/// Suppresses warnings of operations that the program did not call.
#pragma once

#include "base/ref.h"

namespace stator::torch_room {

/// While it lives, warnings are dropped and don't count as given: warnings that are given once still come later. Unlike
/// `warnings.catch_warnings`, it leaves Python's registries of given warnings unchanged.
class WithoutWarnings {
  public:
    WithoutWarnings();
    ~WithoutWarnings();
    WithoutWarnings(const WithoutWarnings&) = delete;
    WithoutWarnings& operator=(const WithoutWarnings&) = delete;

  private:
    Ref<> filters_;
    bool always_;
};

}  // namespace stator::torch_room
