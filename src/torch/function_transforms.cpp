#include "torch/function_transforms.h"

// (The headers of functorch include one that PyTorch does not install, so its functions are called through Python.)
#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <algorithm>
#include <vector>

#include "base/imported.h"
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
    PyObject* leave_to_depth = imported("torch._C._functorch", "pop_dynamic_layer_stack_and_undo_to_depth");
    PyObject* unwrapped = imported("torch._C._functorch", "get_unwrapped");
    PyObject* allow_requires_grad = imported("torch._C._functorch", "set_inplace_requires_grad_allowed");
};

const Functorch& functorch() {
    static const Functorch all;
    return all;
}

void leave_levels(std::size_t depth) {
    ErrorAside aside;
    checked(PyObject_CallFunction(functorch().leave_to_depth, "n", static_cast<Py_ssize_t>(depth)));
    checked(PyObject_CallOneArg(functorch().allow_requires_grad, Py_False));
    if (!at::SavedTensorDefaultHooks::is_enabled()) at::SavedTensorDefaultHooks::enable();
}

/// The level of forward-mode differentiation, which `torch.func.jvp` enters. There is at most one.
void leave_dual_level() {
    if (torch::autograd::ForwardADLevel::try_get_by_idx(0)) torch::autograd::ForwardADLevel::release_idx(0);
}

}  // namespace

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
