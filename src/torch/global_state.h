/// PyTorch's global and thread-local state: what a captured graph assumes of it, and scoped changes of parts of it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// The devices for which autocast exists, in PyTorch's order.
inline constexpr std::size_t kAutocastDevices = 10;

/// Modes that programs switch while they run and that results depend on. The tracer keeps one of these for the traced
/// program, and applies it with `WithModes` while it infers the result of an operation.
struct Modes {
    bool grad = true;
    bool inference = false;
    bool autocast_cache = true;
    struct Autocast {
        bool enabled = false;
        Dtype dtype{};
        friend bool operator==(const Autocast&, const Autocast&) = default;
    };
    std::array<Autocast, kAutocastDevices> autocast;

    friend bool operator==(const Modes&, const Modes&) = default;

    bool autocast_anywhere() const;
    /// The autocast mode of one device; null if it has no autocast.
    Autocast* autocast_of(DeviceKind device);
};

Modes current_modes();
/// Whether PyTorch calls `__torch_function__` of tensor subclasses.
bool are_torch_functions_enabled();
/// Restores the modes after a failure. Inference mode is left by its own guard.
void restore_modes(const Modes& modes);
std::string print(const Modes& modes);

/// Everything a graph assumes besides its inputs.
struct GlobalState {
    Modes modes;
    /// Whether the program read autocast's dtypes or cache: they are then guarded although autocast is off.
    bool reads_autocast = false;
    /// Whether calls of numpy are nodes: numpy must not raise floating-point errors then, as those nodes do not.
    bool reads_numpy_errors = false;
    bool forward_grad = true;
    bool is_in_dual_level = false;
    Dtype default_dtype{};
    std::uint64_t included_keys = 0;  // dispatch keys that this thread adds to and takes from every call
    std::uint64_t excluded_keys = 0;
    std::int8_t torch_function = 0;  // enabled, disabled for subclasses, disabled altogether
    std::uint32_t dispatch_modes = 0;
    bool deterministic = false;
    bool deterministic_warn_only = false;
    /// Global flags of PyTorch that allow kernels or ask for warnings, one bit each, see `kSwitches`.
    std::uint32_t switches = 0;
    std::int8_t float32_matmul = 0;
    std::int8_t fp16_reduction = 0;
    std::int8_t bf16_reduction = 0;
    int threads = 0;
    /// Modes with `__torch_function__`, outermost first. A default device is one of these: it is compared by its
    /// device, all others by their class (what the trace has read of them has guards of its own).
    struct FunctionMode {
        Ref<> type;
        bool is_device = false;
        Device device;
    };
    std::vector<FunctionMode> function_modes;

    /// Whether one of them is no default device: its `__torch_function__` is traced, and graphs run without modes.
    bool has_function_modes_of_program() const;
};

GlobalState snapshot_global_state();
/// Whether forward-mode differentiation is active (`torch.autograd.forward_ad.dual_level`): any tensor may have a
/// tangent then.
bool is_in_dual_level();

/// Some 40 ns with no function modes active, half of it PyTorch's look-up of the float32 precision.
bool matches(const GlobalState& state);
/// The differences from the current state, in words; empty if there are none.
std::string explain_mismatch(const GlobalState& state);

/// The state that metadata of results depends on.
struct ResultState {
    bool grad = false;
    bool inference = false;
    bool autocast = false;
    bool has_function_modes = false;
    /// There is state with unknown effects: dispatch modes, functorch, function modes other than a default device.
    bool unknown = false;
    /// Whether this attention kernel is enabled, whose result has another layout.
    bool flash_attention = true;
    Dtype default_dtype{};
    /// A key for caches, which covers all of this, the dtypes of autocast and the default device.
    std::uint64_t key = 0;
};
ResultState read_result_state();

/// The dtype that autocast computes in on this device, if it is on there.
std::optional<Dtype> autocast_dtype(DeviceKind device);

/// The device of `torch.set_default_device` or `with torch.device(...)`, if one is active.
bool default_device(Device* device);

// Scoped changes. They nest, and restore the previous state.

class WithGradMode {
  public:
    explicit WithGradMode(bool enabled);
    ~WithGradMode();
    WithGradMode(const WithGradMode&) = delete;
    WithGradMode& operator=(const WithGradMode&) = delete;

  private:
    bool before_;
};

class WithInferenceMode {
  public:
    explicit WithInferenceMode(bool enabled);
    ~WithInferenceMode();
    WithInferenceMode(const WithInferenceMode&) = delete;
    WithInferenceMode& operator=(const WithInferenceMode&) = delete;

  private:
    struct Guard;
    std::unique_ptr<Guard> guard_;
};

class WithAutocast {
  public:
    WithAutocast(DeviceKind device, bool enabled, Dtype dtype, bool cache);
    ~WithAutocast();
    WithAutocast(const WithAutocast&) = delete;
    WithAutocast& operator=(const WithAutocast&) = delete;

  private:
    DeviceKind device_;
    bool enabled_before_;
    Dtype dtype_before_;
    bool cache_before_;
};

/// All of `Modes` at once; only a comparison if they are set already.
class WithModes {
  public:
    explicit WithModes(const Modes& modes);
    ~WithModes();
    WithModes(const WithModes&) = delete;
    WithModes& operator=(const WithModes&) = delete;

  private:
    Modes before_;
    bool changed_;
    std::unique_ptr<WithInferenceMode> inference_;
};

/// Disables oneDNN.
class WithoutOneDnn {
  public:
    WithoutOneDnn();
    ~WithoutOneDnn();
    WithoutOneDnn(const WithoutOneDnn&) = delete;
    WithoutOneDnn& operator=(const WithoutOneDnn&) = delete;

  private:
    bool before_;
};

/// Restores the state of the CPU's default random generator, which belongs to all threads: what others draw meanwhile,
/// they draw again.
class KeepRandomState {
  public:
    KeepRandomState();
    ~KeepRandomState();
    KeepRandomState(const KeepRandomState&) = delete;
    KeepRandomState& operator=(const KeepRandomState&) = delete;

    /// This thread has drawn nothing: what others drew stays drawn.
    void leave();

  private:
    struct Saved;
    std::unique_ptr<Saved> saved_;
};

}  // namespace stator::torch_room
