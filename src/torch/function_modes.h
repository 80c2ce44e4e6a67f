/// The stack of modes with `__torch_function__` (`torch.overrides.TorchFunctionMode`) of this thread.
#pragma once

#include <memory>
#include <vector>

#include "base/ref.h"

namespace stator::torch_room {

/// Whether any mode is active.
bool has_function_modes();
/// Whether one of the active modes is the program's own: not a default device, of which graphs know.
bool has_function_modes_of_program();

/// Takes all modes off the stack while it lives.
class WithoutFunctionModes {
  public:
    explicit WithoutFunctionModes(bool is_wanted = true);
    ~WithoutFunctionModes();
    WithoutFunctionModes(const WithoutFunctionModes&) = delete;
    WithoutFunctionModes& operator=(const WithoutFunctionModes&) = delete;

    /// The modes that were on the stack, the outermost one first.
    std::vector<Borrowed<>> modes() const;

  private:
    struct Stack;
    std::unique_ptr<Stack> stack_;
};

/// While it lives, PyTorch calls no `__torch_function__`, neither of modes nor of subclasses. Modes may be entered and
/// left meanwhile.
class WithFunctionModesDisabled {
  public:
    explicit WithFunctionModesDisabled(bool is_wanted);
    ~WithFunctionModesDisabled();
    WithFunctionModesDisabled(const WithFunctionModesDisabled&) = delete;
    WithFunctionModesDisabled& operator=(const WithFunctionModesDisabled&) = delete;

  private:
    int before_ = -1;
};

}  // namespace stator::torch_room
