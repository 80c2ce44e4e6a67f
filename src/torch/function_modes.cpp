#include "torch/function_modes.h"

#include <ATen/PythonTorchFunctionTLS.h>

#include "torch/global_state.h"

namespace stator::torch_room {

using at::impl::PythonTorchFunctionTLS;
using at::impl::TorchFunctionDisabledState;

bool has_function_modes() {
    return PythonTorchFunctionTLS::stack_len() > 0;
}

bool has_function_modes_of_program() {
    // (Where all are disabled, the program runs uncompiled.)
    if (PythonTorchFunctionTLS::stack_len() == 0 || at::impl::torch_function_all_disabled()) return false;
    return snapshot_global_state().has_function_modes_of_program();
}

struct WithoutFunctionModes::Stack {
    std::vector<std::shared_ptr<c10::SafePyObject>> modes;  // the innermost one first
};

WithoutFunctionModes::WithoutFunctionModes(bool is_wanted) {
    if (!is_wanted || PythonTorchFunctionTLS::stack_len() == 0) return;
    stack_ = std::make_unique<Stack>();
    while (PythonTorchFunctionTLS::stack_len() > 0) stack_->modes.push_back(PythonTorchFunctionTLS::pop_stack());
}

WithoutFunctionModes::~WithoutFunctionModes() {
    if (!stack_) return;
    for (auto mode = stack_->modes.rbegin(); mode != stack_->modes.rend(); ++mode)
        PythonTorchFunctionTLS::push_onto_stack(*mode);
}

std::vector<Borrowed<>> WithoutFunctionModes::modes() const {
    std::vector<Borrowed<>> found;
    if (!stack_) return found;
    for (auto mode = stack_->modes.rbegin(); mode != stack_->modes.rend(); ++mode)
        found.push_back((*mode)->ptr(&(*mode)->pyinterpreter()));
    return found;
}

WithFunctionModesDisabled::WithFunctionModesDisabled(bool is_wanted) {
    if (!is_wanted) return;
    before_ = static_cast<int>(PythonTorchFunctionTLS::get_disabled_state());
    PythonTorchFunctionTLS::set_disabled_state(TorchFunctionDisabledState::ALL_DISABLED);
}

WithFunctionModesDisabled::~WithFunctionModesDisabled() {
    if (before_ >= 0) PythonTorchFunctionTLS::set_disabled_state(static_cast<TorchFunctionDisabledState>(before_));
}

}  // namespace stator::torch_room
