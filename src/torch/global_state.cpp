#include "torch/global_state.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/versions.h"
#include "torch/arrays.h"
#include "torch/names.h"
#include "torch/settings.h"
#include "torch/usual_modes.h"

namespace stator::torch_room {

namespace {

constexpr auto& kDevices = at::autocast::_AUTOCAST_SUPPORTED_DEVICES;
static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(kDevices)>> == kAutocastDevices);

/// The excluded keys if autocast is off for all devices: all of its keys.
bool autocast_is_off(std::uint64_t excluded_keys) {
    static const std::uint64_t autocast = c10::autocast_dispatch_keyset.raw_repr();
    return (excluded_keys & autocast) == autocast;
}

struct ThreadKeys {
    std::uint64_t included;
    std::uint64_t excluded;
};

ThreadKeys thread_keys() {
    c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    return {keys.included_.raw_repr(), keys.excluded_.raw_repr()};
}

Borrowed<> function_mode_at(std::int64_t index) {
    const auto& mode = at::impl::PythonTorchFunctionTLS::get_stack_at(index);
    return mode->ptr(&mode->pyinterpreter());
}

Borrowed<> device_context_class() {
    static PyObject* found = imported("torch.utils._device", "DeviceContext");
    return found;
}

/// Whether a function mode is a default device, and which.
bool is_device_mode(Borrowed<> mode, Device* device) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(mode.get())) != device_context_class().get()) return false;
    Ref<> object = Ref<>::steal(PyObject_GetAttrString(mode, "device"));
    if (!object) {
        PyErr_Clear();
        return false;
    }
    auto found = as_device(object.get());
    if (found) *device = *found;
    return found.has_value();
}

using Precisions = std::unordered_map<std::pair<at::Float32Backend, at::Float32Op>, at::Float32Precision,
                                      c10::hash<std::pair<at::Float32Backend, at::Float32Op>>>;
Precisions& precisions_of(at::Context& context);
/// An explicit instantiation may name a private member.
template <Precisions at::Context::*kMember>
struct Private {
    friend Precisions& precisions_of(at::Context& context) { return context.*kMember; }
};
template struct Private<&at::Context::fp32_precision>;

/// PyTorch looks it up in a table, which takes longer than all the rest that a check of guards reads. Entries of the
/// table stay where they are, so they are compared with what they were, and the answer of then is kept.
std::int8_t float32_matmul(at::Context& context) {
    struct Read {
        const at::Float32Precision* where;
        at::Float32Precision was;
    };
    // A fixed number of reads needs no loop. Those without an entry read their own value.
    static std::array<Read, 12> read{};
    static std::size_t count = 0;
    static std::int8_t known = 0;
    const Precisions& precisions = precisions_of(context);
    if (count != 0 && count == precisions.size()) [[likely]] {
        int differences = 0;
#pragma GCC unroll 12
        for (const Read& one : read) differences |= static_cast<int>(*one.where) ^ static_cast<int>(one.was);
        if (differences == 0) [[likely]]
            return known;
    }
    count = 0;
    if (precisions.size() <= read.size()) {
        for (const auto& [key, precision] : precisions) read[count++] = {&precision, precision};
        for (std::size_t i = count; i < read.size(); ++i) read[i].where = &read[i].was;
    }
    known = static_cast<std::int8_t>(context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL));
    return known;
}

/// An active dispatch mode is visible in the keys that the thread includes, which are cheaper to read.
std::uint32_t dispatch_modes(std::uint64_t included_keys) {
    static const std::uint64_t python = c10::DispatchKeySet(c10::DispatchKey::Python).raw_repr();
    if ((included_keys & python) == 0) return 0;
    return static_cast<std::uint32_t>(c10::impl::TorchDispatchModeTLS::stack_len());
}

/// The thread-local grad mode: PyTorch's own accessor takes 10 ns.
const c10::AutogradState& autograd_state() {
    static thread_local const c10::AutogradState* state = nullptr;
    if (state == nullptr) state = &c10::AutogradState::get_tls_state();
    return *state;
}

bool same_function_modes(const GlobalState& state) {
    auto length = at::impl::PythonTorchFunctionTLS::stack_len();
    if (static_cast<std::size_t>(length) != state.function_modes.size()) return false;
    for (std::int64_t i = 0; i < length; ++i) {
        const auto& expected = state.function_modes[static_cast<std::size_t>(i)];
        Borrowed<> mode = function_mode_at(i);
        if (reinterpret_cast<PyObject*>(Py_TYPE(mode.get())) != expected.type.get()) return false;
        Device device;
        if (expected.is_device && (!is_device_mode(mode, &device) || device != expected.device)) return false;
    }
    return true;
}

bool same_autocast(const GlobalState& state) {
    for (std::size_t i = 0; i < kAutocastDevices; ++i) {
        const Modes::Autocast& expected = state.modes.autocast[i];
        bool enabled = at::autocast::is_autocast_enabled(kDevices[i]);
        if (enabled != expected.enabled) return false;
        if (!enabled && !state.reads_autocast) continue;
        if (static_cast<Dtype>(at::autocast::get_autocast_dtype(kDevices[i])) != expected.dtype) return false;
    }
    return at::autocast::is_autocast_cache_enabled() == state.modes.autocast_cache;
}

/// Global flags that change without changing a dispatch key.
struct Switch {
    const char* name;
    bool (*is_on)(const at::Context& context);
};
constexpr Switch kSwitches[] = {
    {"cuDNN", [](const at::Context& context) { return context.userEnabledCuDNN(); }},
    {"oneDNN", [](const at::Context& context) { return context.userEnabledMkldnn(); }},
    {"anomaly detection", [](const at::Context&) { return torch::autograd::AnomalyMode::is_enabled(); }},
    {"warn_always", [](const at::Context&) { return c10::WarningUtils::get_warnAlways(); }},
};

static_assert(std::size(kSwitches) + kPackedBits == 32);

template <std::size_t... kIndex>
std::uint32_t read_switches(const at::Context& context, std::index_sequence<kIndex...>) {
    return ((kSwitches[kIndex].is_on(context) ? 1U << kIndex : 0U) | ...);
}

/// Written out by the compiler: every check of guards reads them.
std::uint32_t read_switches(const at::Context& context) {
    return read_switches(context, std::make_index_sequence<std::size(kSwitches)>()) | packed_settings()
                                                                                          << std::size(kSwitches);
}

}  // namespace

bool are_on_without_autocast(const Modes& modes) {
    const c10::AutogradState& autograd = autograd_state();
    return autograd.get_grad_mode() == modes.grad && autograd.get_inference_mode() == modes.inference &&
           autocast_is_off(thread_keys().excluded) && !modes.autocast_anywhere() &&
           at::autocast::is_autocast_cache_enabled() == modes.autocast_cache;
}

bool Modes::autocast_anywhere() const {
    for (const Autocast& device : autocast)
        if (device.enabled) return true;
    return false;
}

Modes::Autocast* Modes::autocast_of(DeviceKind device) {
    for (std::size_t i = 0; i < kAutocastDevices; ++i)
        if (static_cast<DeviceKind>(kDevices[i]) == device) return &autocast[i];
    return nullptr;
}

Modes current_modes() {
    const c10::AutogradState& autograd = autograd_state();
    Modes modes;
    modes.grad = autograd.get_grad_mode();
    modes.inference = autograd.get_inference_mode();
    modes.autocast_cache = at::autocast::is_autocast_cache_enabled();
    // Read for each node: mostly one look at the keys answers for all devices.
    const bool is_off = autocast_is_off(thread_keys().excluded);
    for (std::size_t i = 0; i < kAutocastDevices; ++i)
        modes.autocast[i] = {!is_off && at::autocast::is_autocast_enabled(kDevices[i]),
                             static_cast<Dtype>(at::autocast::get_autocast_dtype(kDevices[i]))};
    return modes;
}

std::string print(const Modes& modes) {
    std::string text = modes.grad ? "grad" : "no_grad";
    if (modes.inference) text += " inference_mode";
    for (std::size_t i = 0; i < kAutocastDevices; ++i)
        if (modes.autocast[i].enabled)
            text += " autocast(" + device_name({static_cast<DeviceKind>(kDevices[i]), -1}) + ", " +
                    dtype_name(modes.autocast[i].dtype) + ")";
    return text;
}

bool is_in_dual_level() {
    // PyTorch's function takes a lock. All levels are entered through this variable of a Python module.
    static PyObject* const variables = [] {
        Ref<> module = checked(PyImport_ImportModule("torch.autograd.forward_ad"));
        return Py_NewRef(PyModule_GetDict(module.get()));
    }();
    static std::uint64_t known_version = 0;
    static bool is_inside = false;
    std::uint64_t version = cpython::dict_version(variables);
    if (version != 0 && version == known_version) return is_inside;
    PyObject* level = PyDict_GetItemWithError(variables, interned("_current_level"));
    is_inside = level != nullptr && PyLong_Check(level) && PyLong_AsLong(level) >= 0;
    PyErr_Clear();
    known_version = version;
    return is_inside;
}

bool GlobalState::has_function_modes_of_program() const {
    return std::ranges::any_of(function_modes, [](const FunctionMode& mode) { return !mode.is_device; });
}

GlobalState snapshot_global_state() {
    at::Context& context = at::globalContext();
    GlobalState state;
    state.modes = current_modes();
    state.forward_grad = c10::AutogradState::get_tls_state().get_fw_grad_mode();
    state.is_in_dual_level = is_in_dual_level();
    state.default_dtype = static_cast<Dtype>(c10::get_default_dtype_as_scalartype());
    ThreadKeys keys = thread_keys();
    state.included_keys = keys.included;
    state.excluded_keys = keys.excluded;
    state.torch_function = static_cast<std::int8_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state());
    state.dispatch_modes = dispatch_modes(keys.included);
    state.deterministic = context.deterministicAlgorithms();
    state.deterministic_warn_only = context.deterministicAlgorithmsWarnOnly();
    state.switches = read_switches(context);
    state.float32_matmul = float32_matmul(context);
    state.fp16_reduction = static_cast<std::int8_t>(context.allowFP16ReductionCuBLAS());
    state.bf16_reduction = static_cast<std::int8_t>(context.allowBF16ReductionCuBLAS());
    state.threads = at::get_num_threads();
    for (std::int64_t i = 0; i < at::impl::PythonTorchFunctionTLS::stack_len(); ++i) {
        Borrowed<> object = function_mode_at(i);
        GlobalState::FunctionMode mode{Ref<>::share(reinterpret_cast<PyObject*>(Py_TYPE(object.get())))};
        mode.is_device = is_device_mode(object, &mode.device);
        state.function_modes.push_back(std::move(mode));
    }
    return state;
}

bool matches(const GlobalState& state) {
    const c10::AutogradState& autograd = autograd_state();
    if (autograd.get_grad_mode() != state.modes.grad || autograd.get_inference_mode() != state.modes.inference ||
        autograd.get_fw_grad_mode() != state.forward_grad || is_in_dual_level() != state.is_in_dual_level)
        return false;
    ThreadKeys keys = thread_keys();
    if (keys.included != state.included_keys || keys.excluded != state.excluded_keys) return false;
    // The excluded keys tell for which devices autocast is on; its dtype and cache matter only then, or if the program
    // read them.
    if ((state.reads_autocast || !autocast_is_off(keys.excluded)) && !same_autocast(state)) return false;
    if (state.reads_numpy_errors && raises_numpy_errors()) return false;
    if (static_cast<Dtype>(c10::get_default_dtype_as_scalartype()) != state.default_dtype) return false;
    if (static_cast<std::int8_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state()) != state.torch_function)
        return false;
    at::Context& context = at::globalContext();
    return context.deterministicAlgorithms() == state.deterministic &&
           context.deterministicAlgorithmsWarnOnly() == state.deterministic_warn_only &&
           read_switches(context) == state.switches &&
           static_cast<std::int8_t>(context.allowFP16ReductionCuBLAS()) == state.fp16_reduction &&
           static_cast<std::int8_t>(context.allowBF16ReductionCuBLAS()) == state.bf16_reduction &&
           float32_matmul(context) == state.float32_matmul && at::get_num_threads() == state.threads &&
           dispatch_modes(keys.included) == state.dispatch_modes && same_function_modes(state);
}

std::string explain_mismatch(const GlobalState& was) {
    if (matches(was)) return "";
    GlobalState now = snapshot_global_state();
    auto differs = [](const char* what, const std::string& is, const std::string& before) {
        return std::string(what) + " is " + is + ", was " + before;
    };
    auto yes_no = [](bool value) -> std::string { return value ? "on" : "off"; };
    if (now.modes.grad != was.modes.grad) return differs("grad mode", yes_no(now.modes.grad), yes_no(was.modes.grad));
    if (now.modes.inference != was.modes.inference)
        return differs("inference mode", yes_no(now.modes.inference), yes_no(was.modes.inference));
    if (now.is_in_dual_level != was.is_in_dual_level)
        return differs("forward-mode differentiation", yes_no(now.is_in_dual_level), yes_no(was.is_in_dual_level));
    for (std::size_t i = 0; i < kAutocastDevices; ++i) {
        const auto &is = now.modes.autocast[i], &before = was.modes.autocast[i];
        std::string what = "autocast of " + device_name({static_cast<DeviceKind>(kDevices[i]), -1});
        if (is.enabled != before.enabled) return differs(what.c_str(), yes_no(is.enabled), yes_no(before.enabled));
        if ((is.enabled || was.reads_autocast) && is.dtype != before.dtype)
            return differs(what.c_str(), dtype_name(is.dtype), dtype_name(before.dtype));
    }
    if ((now.modes.autocast_anywhere() || was.reads_autocast) && now.modes.autocast_cache != was.modes.autocast_cache)
        return differs("cache of autocast", yes_no(now.modes.autocast_cache), yes_no(was.modes.autocast_cache));
    if (was.reads_numpy_errors && raises_numpy_errors()) return "numpy raises floating-point errors, did not before";
    if (now.default_dtype != was.default_dtype)
        return differs("default dtype", dtype_name(now.default_dtype), dtype_name(was.default_dtype));
    if (!same_function_modes(was)) {
        auto names = [](const GlobalState& state) {
            return "[" +
                   joined(state.function_modes,
                          [](const GlobalState::FunctionMode& mode) {
                              return mode.is_device ? "device " + device_name(mode.device)
                                                    : type_name(reinterpret_cast<PyTypeObject*>(mode.type.get()));
                          }) +
                   "]";
        };
        return differs("stack of torch function modes", names(now), names(was));
    }
    if (now.torch_function != was.torch_function)
        return differs("__torch_function__", yes_no(now.torch_function == 0), yes_no(was.torch_function == 0));
    if (now.dispatch_modes != was.dispatch_modes)
        return differs("number of torch dispatch modes", std::to_string(now.dispatch_modes),
                       std::to_string(was.dispatch_modes));
    if (now.deterministic != was.deterministic || now.deterministic_warn_only != was.deterministic_warn_only)
        return differs("deterministic algorithms",
                       yes_no(now.deterministic) + (now.deterministic_warn_only ? " (warn only)" : ""),
                       yes_no(was.deterministic) + (was.deterministic_warn_only ? " (warn only)" : ""));
    for (std::size_t i = 0; i < std::size(kSwitches); ++i)
        if (std::uint32_t bit = 1u << i; (now.switches & bit) != (was.switches & bit))
            return differs(kSwitches[i].name, yes_no(now.switches & bit), yes_no(was.switches & bit));
    if (std::string text =
            explain_difference(now.switches >> std::size(kSwitches), was.switches >> std::size(kSwitches));
        !text.empty())
        return text;
    if (now.float32_matmul != was.float32_matmul)
        return differs("float32 matmul precision",
                       at::precision2str(static_cast<at::Float32Precision>(now.float32_matmul)),
                       at::precision2str(static_cast<at::Float32Precision>(was.float32_matmul)));
    if (now.fp16_reduction != was.fp16_reduction) return "reduced precision of fp16 sums differs";
    if (now.bf16_reduction != was.bf16_reduction) return "reduced precision of bf16 sums differs";
    if (now.threads != was.threads)
        return differs("number of threads", std::to_string(now.threads), std::to_string(was.threads));
    if (now.forward_grad != was.forward_grad)
        return differs("forward-mode grad", yes_no(now.forward_grad), yes_no(was.forward_grad));
    auto key_names = [](std::uint64_t keys) {
        return c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys));
    };
    if (now.included_keys != was.included_keys)
        return differs("set of dispatch keys added by this thread", key_names(now.included_keys),
                       key_names(was.included_keys));
    return differs("set of dispatch keys taken by this thread", key_names(now.excluded_keys),
                   key_names(was.excluded_keys));
}

void restore_settings(const GlobalState& state) {
    Settings settings = unpacked_settings(state.switches >> std::size(kSwitches), state.default_dtype);
    settings.deterministic = state.deterministic;
    settings.deterministic_warn_only = state.deterministic_warn_only;
    restore_settings(settings);
}

bool are_torch_functions_enabled() {
    return at::impl::PythonTorchFunctionTLS::get_disabled_state() == at::impl::TorchFunctionDisabledState::ENABLED;
}

bool default_device(Device* device) {
    if (at::impl::torch_function_all_disabled()) return false;
    auto length = at::impl::PythonTorchFunctionTLS::stack_len();
    // The innermost default device counts.
    for (std::int64_t i = length; i-- > 0;)
        if (is_device_mode(function_mode_at(i), device)) return true;
    return false;
}

std::optional<Dtype> autocast_dtype(DeviceKind device) {
    for (auto supported : kDevices)
        if (static_cast<DeviceKind>(supported) == device && at::autocast::is_autocast_enabled(supported))
            return static_cast<Dtype>(at::autocast::get_autocast_dtype(supported));
    return std::nullopt;
}

namespace {

/// Keys of tracers and of functorch's levels.
const std::uint64_t kUnforeseen =
    c10::DispatchKeySet({c10::DispatchKey::Tracer, c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                         c10::DispatchKey::FuncTorchDynamicLayerBackMode})
        .raw_repr();

}  // namespace

ResultState read_result_state() {
    ResultState state;
    const c10::AutogradState& autograd = autograd_state();
    state.grad = autograd.get_grad_mode();
    state.inference = autograd.get_inference_mode();
    state.default_dtype = static_cast<Dtype>(c10::get_default_dtype_as_scalartype());
    state.flash_attention = at::globalContext().userEnabledFlashSDP();
    ThreadKeys keys = thread_keys();
    auto mix = [&state](std::uint64_t word) {
        state.key = (state.key ^ word) * 0xff51afd7ed558ccd;
        state.key ^= state.key >> 29;
    };
    mix(keys.included);
    mix(keys.excluded);
    mix(static_cast<std::uint64_t>(state.default_dtype) | std::uint64_t{state.grad} << 8 |
        std::uint64_t{state.inference} << 9 | std::uint64_t{autograd.get_fw_grad_mode()} << 10 |
        std::uint64_t{state.flash_attention} << 11);
    if (!autocast_is_off(keys.excluded)) {
        state.autocast = true;
        for (auto device : kDevices)
            mix(std::uint64_t{at::autocast::is_autocast_enabled(device)} << 8 |
                static_cast<std::uint64_t>(at::autocast::get_autocast_dtype(device)));
    }
    // Keys that plain programs never add: functorch, dispatch modes, tracing, functionalization.
    if (dispatch_modes(keys.included) != 0 || (keys.included & c10::functorch_transforms_ks.raw_repr()) != 0 ||
        (keys.included & c10::functorch_batched_ks.raw_repr()) != 0 || (keys.included & kUnforeseen) != 0)
        state.unknown = true;
    if (auto length = at::impl::PythonTorchFunctionTLS::stack_len(); length > 0) {
        for (std::int64_t i = 0; i < length; ++i) {
            Device device;
            if (!is_device_mode(function_mode_at(i), &device)) state.unknown = true;
            mix(static_cast<std::uint64_t>(device.kind) << 16 | static_cast<std::uint16_t>(device.index));
        }
        mix(static_cast<std::uint64_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state()));
        state.has_function_modes = true;
    }
    return state;
}

}  // namespace stator::torch_room
