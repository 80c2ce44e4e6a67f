/// Records the ATen operations of a call: what they write to, and whether they draw random numbers.
#pragma once

#include <vector>

#include "base/ref.h"

namespace stator::torch_room {

struct Recording {
    /// Storages that an operation writes to, by its schema.
    std::vector<const void*> written;
    bool random = false;
    /// An operation that returns nothing and writes to nothing must have a side effect.
    bool side_effect = false;
};

/// While it lives, operations of this thread run under a FakeTensorMode and are recorded.
class RecordingUnderFakeMode {
  public:
    explicit RecordingUnderFakeMode(Borrowed<> fake_mode);
    ~RecordingUnderFakeMode();
    RecordingUnderFakeMode(const RecordingUnderFakeMode&) = delete;
    RecordingUnderFakeMode& operator=(const RecordingUnderFakeMode&) = delete;

    const Recording& recording() const { return recording_; }

  private:
    Recording recording_;
    Ref<> fake_mode_;
    Ref<> recorder_;
};

}  // namespace stator::torch_room
