#include "torch/function_transforms.h"

// (The headers of functorch include one that PyTorch does not install, so its functions are called through Python.)
#include <ATen/SavedTensorHooks.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "base/imported.h"
#include "base/text.h"
#include "torch/errors.h"
#include "torch/fake.h"
#include "torch/global_state.h"
#include "torch/implementation.h"
#include "torch/names.h"
#include "torch/tensor.h"

namespace stator::torch_room {

namespace {

struct Functorch {
    PyObject* depth = imported("torch._C._functorch", "get_dynamic_layer_stack_depth");
    PyObject* push = imported("torch._C._functorch", "push_dynamic_layer_stack");
    PyObject* pop = imported("torch._C._functorch", "pop_dynamic_layer_stack");
    PyObject* innermost = imported("torch._C._functorch", "peek_interpreter_stack");
    PyObject* leave_vmap = imported("torch._C._functorch", "_vmap_decrement_nesting");
    PyObject* leave_grad = imported("torch._C._functorch", "_grad_decrement_nesting");
    PyObject* leave_jvp = imported("torch._C._functorch", "_jvp_decrement_nesting");
    PyObject* leave_functionalize = imported("torch._C._functorch", "_func_decrement_nesting");
    PyObject* unwrapped = imported("torch._C._functorch", "get_unwrapped");
    PyObject* allow_requires_grad = imported("torch._C._functorch", "set_inplace_requires_grad_allowed");
};

const Functorch& functorch() {
    static const Functorch all;
    return all;
}

/// `Vmap`, `Grad`, `Jvp` or `Functionalize`; empty if there is no level.
std::string kind_of_innermost() {
    Ref<> level = checked(PyObject_CallNoArgs(functorch().innermost));
    if (level.get() == Py_None) return "";
    Ref<> kind = checked(PyObject_CallMethod(level.get(), "key", nullptr));
    return std::string(utf8(checked(PyObject_GetAttrString(kind.get(), "name")).get()));
}

/// Leaves the innermost level by the function that its transform would call.
/// (`pop_dynamic_layer_stack_and_undo_to_depth` pops two levels for one in torch 2.11.)
void leave_innermost() {
    const std::string name = kind_of_innermost();
    PyObject* leave = name == "Vmap"   ? functorch().leave_vmap
                      : name == "Grad" ? functorch().leave_grad
                      : name == "Jvp"  ? functorch().leave_jvp
                                       : functorch().leave_functionalize;
    checked(PyObject_CallNoArgs(leave));
}

void leave_levels(std::size_t depth) {
    ErrorAside aside;
    while (transform_depth() > depth) leave_innermost();
    checked(PyObject_CallOneArg(functorch().allow_requires_grad, Py_False));
    if (!at::SavedTensorDefaultHooks::is_enabled()) at::SavedTensorDefaultHooks::enable();
}

/// The level of forward-mode differentiation, which `torch.func.jvp` enters. There is at most one.
void leave_dual_level() {
    if (torch::autograd::ForwardADLevel::try_get_by_idx(0)) torch::autograd::ForwardADLevel::release_idx(0);
}

}  // namespace

ForwardMode ForwardMode::current() {
    return {torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr,
            c10::AutogradState::get_tls_state().get_fw_grad_mode()};
}

void ForwardMode::restore() const {
    if (!has_level) leave_dual_level();
    c10::AutogradState::get_tls_state().set_fw_grad_mode(is_enabled);
}

TransformLevels::~TransformLevels() {
    leave();
}

void TransformLevels::resume() {
    for (const Ref<>& layer : layers_) checked(PyObject_CallOneArg(functorch().push, layer.get()));
    layers_.clear();
}

void TransformLevels::suspend() {
    for (std::size_t left = transform_depth(); left > 0; --left)
        layers_.push_back(checked(PyObject_CallNoArgs(functorch().pop)));
    std::ranges::reverse(layers_);
}

void TransformLevels::leave() {
    if (layers_.empty()) return;
    resume();
    leave_levels(0);
    leave_dual_level();
}

TransformLevels::Resumed::Resumed(TransformLevels& levels) : levels_(levels) {
    levels.resume();
}

TransformLevels::Resumed::~Resumed() {
    ErrorAside aside;
    levels_.suspend();
}

bool has_transforms(const GlobalState& state) {
    return c10::DispatchKeySet(c10::DispatchKeySet::RAW, state.included_keys)
        .has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

std::size_t transform_depth() {
    return PyLong_AsSize_t(checked(PyObject_CallNoArgs(functorch().depth)).get());
}

std::string call_inside_of_transform() {
    std::string name = kind_of_innermost();
    if (name.empty()) return "";
    std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
    const std::string transform = "torch.func." + name;
    // (The words of torch._dynamo, which people search for.)
    return "Calling " + transform +
           "(compiled_fn) function from eager mode is not supported: compile the function that"
           " calls " +
           transform + " as well";
}

void leave_transforms(std::size_t depth) {
    ErrorAside aside;
    if (transform_depth() <= depth) return;
    leave_levels(depth);
    if (depth == 0) leave_dual_level();
}

Ref<> innermost_tensor(Borrowed<> object) {
    Ref<> tensor = Ref<>::share(object.get());
    while ((read_traits(tensor.get()) & trait::kFunctorch) != 0)
        tensor = checked(PyObject_CallOneArg(functorch().unwrapped, tensor.get()));
    return tensor;
}

TensorMeta read_wrapped_meta(Borrowed<> object) {
    if (is_fake(object)) return read_fake_meta(object);
    TensorMeta meta = read_meta(object);
    Ref<> inner = innermost_tensor(object);
    if (is_fake(inner.get())) meta.device = read_fake_meta(inner.get()).device;
    meta.dispatch_keys &= ~trait::kPythonDispatch;
    meta.python_class = tensor_class();
    return meta;
}

}  // namespace stator::torch_room
