/// Running operations that the program did not ask for: what they warn of is not for it.
#pragma once

#include "base/ref.h"

namespace stator::torch_room {

/// While it lives, warnings go nowhere, and none counts as given: those that are given once are still to come. The
/// registers in which Python notes what it has warned of stay as they are, unlike with `warnings.catch_warnings`.
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
