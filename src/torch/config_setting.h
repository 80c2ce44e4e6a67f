/// Settings in configuration modules of PyTorch, such as `torch._dynamo.config`.
#pragma once

#include "base/ref.h"

namespace stator::torch_room {

/// A setting, read without running Python code: PyTorch keeps what a program has set in a context variable. The value
/// of one that was not set does not change.
class ConfigSetting {
  public:
    ConfigSetting(PyObject* settings, const char* name);

    /// Empty if there is no such setting.
    Ref<> read();

  private:
    PyObject *settings_, *name_;
    PyObject* variable_ = nullptr;
    PyObject* default_ = nullptr;
};

}  // namespace stator::torch_room
