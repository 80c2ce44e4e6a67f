/// Scoped changes of PyTorch's state.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "torch/global_state.h"

namespace stator::torch_room {

namespace {

bool exchange_grad_mode(bool enabled) {
    c10::AutogradState& state = c10::AutogradState::get_tls_state();
    bool before = state.get_grad_mode();
    state.set_grad_mode(enabled);
    return before;
}

}  // namespace

WithGradMode::WithGradMode(bool enabled) : before_(exchange_grad_mode(enabled)) {}
WithGradMode::~WithGradMode() {
    exchange_grad_mode(before_);
}

struct WithInferenceMode::Guard {
    c10::InferenceMode guard;
};

WithInferenceMode::WithInferenceMode(bool enabled) : guard_(new Guard{c10::InferenceMode(enabled)}) {}
WithInferenceMode::~WithInferenceMode() = default;

WithoutOneDnn::WithoutOneDnn() : before_(at::globalContext().userEnabledMkldnn()) {
    at::globalContext().setUserEnabledMkldnn(false);
}
WithoutOneDnn::~WithoutOneDnn() {
    at::globalContext().setUserEnabledMkldnn(before_);
}

WithAutocast::WithAutocast(DeviceKind device, bool enabled, Dtype dtype, bool cache) : device_(device) {
    auto type = static_cast<c10::DeviceType>(device);
    enabled_before_ = at::autocast::is_autocast_enabled(type);
    dtype_before_ = static_cast<Dtype>(at::autocast::get_autocast_dtype(type));
    cache_before_ = at::autocast::is_autocast_cache_enabled();
    at::autocast::set_autocast_enabled(type, enabled);
    at::autocast::set_autocast_dtype(type, static_cast<c10::ScalarType>(dtype));
    at::autocast::set_autocast_cache_enabled(cache);
}

WithAutocast::~WithAutocast() {
    auto type = static_cast<c10::DeviceType>(device_);
    at::autocast::set_autocast_enabled(type, enabled_before_);
    at::autocast::set_autocast_dtype(type, static_cast<c10::ScalarType>(dtype_before_));
    at::autocast::set_autocast_cache_enabled(cache_before_);
}

namespace {

void switch_autocast(const Modes& modes) {
    for (std::size_t i = 0; i < kAutocastDevices; ++i) {
        auto device = at::autocast::_AUTOCAST_SUPPORTED_DEVICES[i];
        at::autocast::set_autocast_enabled(device, modes.autocast[i].enabled);
        at::autocast::set_autocast_dtype(device, static_cast<c10::ScalarType>(modes.autocast[i].dtype));
    }
    at::autocast::set_autocast_cache_enabled(modes.autocast_cache);
}

}  // namespace

void restore_modes(const Modes& modes) {
    if (current_modes() == modes) return;
    exchange_grad_mode(modes.grad);
    switch_autocast(modes);
}

WithModes::WithModes(const Modes& modes) : before_(current_modes()), changed_(modes != before_) {
    if (!changed_) return;
    // Inference mode sets the grad mode too, so the grad mode is set after it.
    if (modes.inference != before_.inference) inference_ = std::make_unique<WithInferenceMode>(modes.inference);
    exchange_grad_mode(modes.grad);
    switch_autocast(modes);
}

WithModes::~WithModes() {
    if (!changed_) return;
    switch_autocast(before_);
    inference_.reset();
    exchange_grad_mode(before_.grad);
}

struct KeepRandomState::Saved {
    at::Generator copy;
};

KeepRandomState::KeepRandomState() {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    saved_.reset(new Saved{generator.clone()});
}

void KeepRandomState::leave() {
    saved_.reset();
}

KeepRandomState::~KeepRandomState() {
    if (!saved_) return;
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    auto* live = at::check_generator<at::CPUGeneratorImpl>(generator);
    auto* saved = at::check_generator<at::CPUGeneratorImpl>(saved_->copy);
    live->set_engine(saved->engine());
    live->set_next_float_normal_sample(saved->next_float_normal_sample());
    live->set_next_double_normal_sample(saved->next_double_normal_sample());
}

}  // namespace stator::torch_room
