#include "torch/settings.h"

#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <utility>

#include "base/imported.h"
#include "base/python_error.h"
#include "torch/names.h"

namespace stator::torch_room {

namespace {

struct AttentionKernel {
    const char* name;
    const char* setter;
    bool (*is_on)(const at::Context& context);
};
constexpr AttentionKernel kKernels[] = {
    {"flash attention", "_set_sdp_use_flash", [](const at::Context& context) { return context.userEnabledFlashSDP(); }},
    {"memory-efficient attention", "_set_sdp_use_mem_efficient",
     [](const at::Context& context) { return context.userEnabledMemEfficientSDP(); }},
    {"attention by plain operations", "_set_sdp_use_math",
     [](const at::Context& context) { return context.userEnabledMathSDP(); }},
    {"attention by cuDNN", "_set_sdp_use_cudnn",
     [](const at::Context& context) { return context.userEnabledCuDNNSDP(); }},
    {"attention by a device's own kernel", "_set_sdp_use_overrideable",
     [](const at::Context& context) { return context.userEnabledOverrideableSDP(); }},
};
static_assert(std::size(kKernels) == kAttentionKernels && at::num_sdp_backends == kAttentionKernels);

/// Written out by the compiler: every check of guards reads them.
template <std::size_t... kIndex>
std::uint8_t enabled_kernels(const at::Context& context, std::index_sequence<kIndex...>) {
    return static_cast<std::uint8_t>(((kKernels[kIndex].is_on(context) ? 1U << kIndex : 0U) | ...));
}
std::uint8_t enabled_kernels(const at::Context& context) {
    return enabled_kernels(context, std::make_index_sequence<kAttentionKernels>());
}

std::array<std::int8_t, kAttentionKernels> kernel_order() {
    std::array<std::int8_t, kAttentionKernels> order{};
    auto kernels = at::globalContext().sDPPriorityOrder();
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int8_t>(kernels[i]);
    return order;
}

Dtype default_dtype() {
    return static_cast<Dtype>(c10::get_default_dtype_as_scalartype());
}

Ref<> function(const char* name) {
    return Ref<>::steal(imported("torch._C", name));
}

Ref<> one(Borrowed<> argument) {
    return checked(PyTuple_Pack(1, argument.get()));
}

Ref<> as_list(const std::array<std::int8_t, kAttentionKernels>& order) {
    Ref<> list = checked(PyList_New(0));
    for (std::int8_t kernel : order) checked(PyList_Append(list.get(), checked(PyLong_FromLong(kernel)).get()));
    return list;
}

SettingCall call_for_saved_hooks(const std::optional<std::string>& disabled) {
    if (!disabled) return {function("_autograd._saved_tensors_hooks_enable"), checked(PyTuple_New(0))};
    Ref<> message = checked(PyUnicode_FromStringAndSize(disabled->data(), static_cast<Py_ssize_t>(disabled->size())));
    return {function("_autograd._saved_tensors_hooks_disable"), one(message.get())};
}

SettingCall call_for_determinism(const Settings& to) {
    Ref<> keywords = checked(PyDict_New());
    checked(PyDict_SetItemString(keywords.get(), "warn_only", to.deterministic_warn_only ? Py_True : Py_False));
    return {function("_set_deterministic_algorithms"), one(to.deterministic ? Py_True : Py_False), std::move(keywords)};
}

}  // namespace

Settings current_settings() {
    return {default_dtype(),
            enabled_kernels(at::globalContext()),
            kernel_order(),
            at::SavedTensorDefaultHooks::get_disabled_error_message(),
            at::globalContext().deterministicAlgorithms(),
            at::globalContext().deterministicAlgorithmsWarnOnly()};
}

namespace {

constexpr int kKernelBits = 3, kOrderBits = kKernelBits * static_cast<int>(kAttentionKernels), kMessageBits = 8;
static_assert(kAttentionKernels + kOrderBits + kMessageBits == kPackedBits);

/// The order is read in every check and hardly ever changes: the numbers of the last one are kept.
std::uint32_t packed_order(at::Context& context) {
    using Order = std::array<at::SDPBackend, at::num_sdp_backends>;
    static Order known{};
    static std::uint32_t packed = 0;
    const Order order = context.sDPPriorityOrder();
    if (packed != 0 && order == known) return packed;
    known = order;
    packed = 0;
    for (at::SDPBackend kernel : order) packed = packed << kKernelBits | (static_cast<std::uint32_t>(kernel) + 1);
    return packed;
}

/// The number of the message of hooks on saved tensors that are disabled. (Programs have one or two messages.)
std::uint32_t number_of(const std::string& message, std::vector<std::string>& known) {
    auto found = std::ranges::find(known, message);
    if (found == known.end() && known.size() + 2 < 1U << kMessageBits) found = known.insert(known.end(), message);
    return static_cast<std::uint32_t>(found - known.begin()) + 1;
}

std::vector<std::string>& known_messages() {
    static auto* const messages = new std::vector<std::string>();
    return *messages;
}

}  // namespace

std::uint32_t packed_settings() {
    const std::optional<std::string>& message = at::SavedTensorDefaultHooks::get_disabled_error_message();
    const std::uint32_t packed = message ? number_of(*message, known_messages()) : 0;
    at::Context& context = at::globalContext();
    return (packed << kOrderBits | packed_order(context)) << kAttentionKernels | enabled_kernels(context);
}

Settings unpacked_settings(std::uint32_t packed, Dtype default_dtype) {
    Settings settings;
    settings.default_dtype = default_dtype;
    settings.attention = packed & ((1U << kAttentionKernels) - 1);
    packed >>= kAttentionKernels;
    for (std::size_t i = kAttentionKernels; i-- > 0; packed >>= kKernelBits)
        settings.attention_order[i] = static_cast<std::int8_t>((packed & ((1U << kKernelBits) - 1)) - 1);
    const std::vector<std::string>& known = known_messages();
    if (packed > 0) settings.saved_hooks_disabled = packed <= known.size() ? known[packed - 1] : "";
    return settings;
}

std::string explain_difference(std::uint32_t is, std::uint32_t was) {
    for (std::size_t i = 0; i < kAttentionKernels; ++i) {
        const bool is_on = (is >> i & 1) != 0, was_on = (was >> i & 1) != 0;
        if (is_on != was_on) return std::string(kKernels[i].name) + " is " + (is_on ? "on, was off" : "off, was on");
    }
    const int before_message = static_cast<int>(kAttentionKernels) + kOrderBits;
    if (is >> before_message != was >> before_message) {
        auto word = [&](std::uint32_t packed) { return packed >> before_message == 0 ? "enabled" : "disabled"; };
        return std::string("hooks on saved tensors are ") + word(is) + ", were " + word(was);
    }
    return is == was ? "" : "the order of attention kernels differs";
}

std::vector<SettingCall> calls_between(const Settings& from, const Settings& to) {
    std::vector<SettingCall> calls;
    if (from.default_dtype != to.default_dtype)
        calls.push_back({function("_set_default_dtype"), one(dtype_object(to.default_dtype))});
    for (std::size_t i = 0; i < kAttentionKernels; ++i) {
        const bool wanted = (to.attention >> i & 1) != 0;
        if (wanted != ((from.attention >> i & 1) != 0))
            calls.push_back({function(kKernels[i].setter), one(wanted ? Py_True : Py_False)});
    }
    if (from.attention_order != to.attention_order)
        calls.push_back({function("_set_sdp_priority_order"), one(as_list(to.attention_order).get())});
    if (from.saved_hooks_disabled != to.saved_hooks_disabled)
        calls.push_back(call_for_saved_hooks(to.saved_hooks_disabled));
    if (from.deterministic != to.deterministic || from.deterministic_warn_only != to.deterministic_warn_only)
        calls.push_back(call_for_determinism(to));
    return calls;
}

void restore_settings(const Settings& settings) {
    if (current_settings() == settings) return;
    ErrorAside aside;
    for (const SettingCall& call : calls_between(current_settings(), settings))
        if (!Ref<>::steal(PyObject_Call(call.function.get(), call.arguments.get(), call.keywords.get()))) PyErr_Clear();
}

std::size_t saved_tensors_hooks_depth() {
    return at::SavedTensorDefaultHooks::get_tls_state().stack.size();
}

void leave_saved_tensors_hooks(std::size_t depth) {
    if (saved_tensors_hooks_depth() <= depth) return;
    ErrorAside aside;
    Ref<> leave = function("_autograd._pop_saved_tensors_default_hooks");
    while (saved_tensors_hooks_depth() > depth) checked(PyObject_CallNoArgs(leave.get()));
}

PyObject* autocast_nesting_function() {
    static PyMethodDef definition{"autocast_nesting",
                                  [](PyObject*, PyObject*) {
                                      at::autocast::increment_nesting();
                                      return PyLong_FromLong(at::autocast::decrement_nesting());
                                  },
                                  METH_NOARGS, nullptr};
    static PyObject* const function = checked(PyCFunction_New(&definition, nullptr)).release();
    return function;
}

}  // namespace stator::torch_room
