/// Settings of PyTorch that programs change while they run, by calling functions: the default dtype, the kernels of
/// attention, whether hooks on saved tensors are allowed, deterministic algorithms.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

struct GlobalState;

inline constexpr std::size_t kAttentionKernels = 5;

struct Settings {
    Dtype default_dtype{};
    std::uint8_t attention = 0;                                    // the kernels that are enabled, one bit each
    std::array<std::int8_t, kAttentionKernels> attention_order{};  // the preferred kernel first
    std::optional<std::string> saved_hooks_disabled;               // the message of the error that using them raises
    bool deterministic = false;
    bool deterministic_warn_only = false;

    friend bool operator==(const Settings&, const Settings&) = default;
};

Settings current_settings();
/// The current settings but for the default dtype and deterministic algorithms, in `kPackedBits` bits: what a guard
/// compares.
std::uint32_t packed_settings();
inline constexpr int kPackedBits = 28;
Settings unpacked_settings(std::uint32_t packed, Dtype default_dtype);
/// The first difference in words; empty if there is none.
std::string explain_difference(std::uint32_t is, std::uint32_t was);

/// A call of a function of PyTorch that sets one of them.
struct SettingCall {
    Ref<> function;
    Ref<> arguments;   // a tuple
    Ref<> keywords{};  // a dict; empty if there are none
};
/// The calls that lead from some settings to others.
std::vector<SettingCall> calls_between(const Settings& from, const Settings& to);
/// Sets what differs. Errors are ignored: all of these settings were set before.
void restore_settings(const Settings& settings);
/// The same to those that a graph assumes.
void restore_settings(const GlobalState& state);

/// How many pairs of hooks on saved tensors are entered in this thread.
std::size_t saved_tensors_hooks_depth();
/// Leaves all but the outermost `depth` of them. Keeps the error indicator.
void leave_saved_tensors_hooks(std::size_t depth);

/// A C function without arguments: how often autocast was entered and not left.
PyObject* autocast_nesting_function();

/// Restores the settings at its end.
class KeepSettings {
  public:
    KeepSettings() : before_(current_settings()) {}
    ~KeepSettings() { restore_settings(before_); }
    KeepSettings(const KeepSettings&) = delete;
    KeepSettings& operator=(const KeepSettings&) = delete;

    const Settings& before() const { return before_; }

  private:
    Settings before_;
};

}  // namespace stator::torch_room
