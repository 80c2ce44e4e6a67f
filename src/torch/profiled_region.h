/// What a profiler of PyTorch shows around a compiled region.
#pragma once

#include <memory>

#include "base/ref.h"

namespace stator::torch_room {

/// Until its end a profiler that is on shows `Torch-Compiled Region: 0/0`, as for code that TorchDynamo has compiled.
class ProfiledRegion {
  public:
    /// Without a compile id, which may be null, nothing is shown.
    explicit ProfiledRegion(PyObject* compile_id) {
        if (compile_id != nullptr) begin(compile_id);
    }
    ProfiledRegion(const ProfiledRegion&) = delete;
    ProfiledRegion& operator=(const ProfiledRegion&) = delete;

  private:
    void begin(PyObject* compile_id);

    std::shared_ptr<void> shown_;
};

}  // namespace stator::torch_room
