/// Functions of functorch that PyTorch's transforms (`torch.vmap`, `torch.func.grad`, ...) call. The transforms
/// themselves are Python code, which is inlined; these become nodes of the graph (see
/// trace/recorder/function_transforms.h).
#include "value/tensor/function_transforms.h"

#include <string>
#include <tuple>

#include "base/imported.h"
#include "value/builtins/registry.h"
#include "value/kinds/constant.h"
#include "value/recorder.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

namespace {

constexpr char kFunctorch[] = "torch._C._functorch", kPredispatch[] = "torch._functorch.predispatch",
               kEager[] = "torch._functorch.eager_transforms", kForward[] = "torch.autograd.forward_ad",
               kAutograd[] = "torch._C._autograd", kTorch[] = "torch._C";

/// A function by its module and name. Handlers take no data of their own, so each function has one.
template <const char* kModule, const char* kName>
PyObject* function() {
    static PyObject* const found = imported(kModule, kName);
    return found;
}

using Emit = Value* (*)(Tracer&, PyObject*, const Arguments&);

template <const char* kModule, const char* kName, Emit kEmit>
Outcome handle(Tracer& tracer, const Arguments& arguments) {
    return kEmit(tracer, function<kModule, kName>(), arguments);
}

/// Enters or leaves a level, or changes other state.
Value* changes_state(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    return tracer.recorder().emit_transform(function, arguments);
}

Value* asks(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    return tracer.recorder().ask_transform(function, arguments);
}

/// Wraps or unwraps tensors, or computes gradients.
Value* computes(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    return tracer.recorder().emit_function(function, arguments);
}

/// The same for a result that the program may not use. TorchDynamo keeps the node, and so does the graph here.
Value* unwraps(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    Value* result = tracer.recorder().emit_function(function, arguments);
    // (The result may be the tensor that was wrapped, which is known by another node.)
    graph::Node* node = tracer.recorder().graph().nodes().back();
    if (node->target == function) node->has_effect = true;
    return result;
}

/// Sets `requires_grad` of a tensor, and returns it. Unlike other operations that return an argument, it is known by
/// its own node afterwards.
Value* sets_requires_grad(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    auto* tensor = arguments.positional.size() == 1 ? cast<TensorValue>(arguments.positional[0]) : nullptr;
    if (tensor == nullptr) tracer.break_graph(BreakKind::UnsupportedTensor, "requires_grad is set by torch.func");
    // (A tensor from outside becomes an input when it is first used.)
    if (tensor->node == nullptr) std::ignore = tensor->as_argument(tracer);
    graph::Node* node = tensor->node;
    Value* same = tracer.recorder().emit_function(function, arguments);
    if (same == tensor) {
        tensor->node->result.same_as_argument = 0;
        tensor->node = node;
    }
    return same;
}

#define STATOR_FUNCTION(module, name, emit)                                                         \
    do {                                                                                            \
        static constexpr char kName[] = #name;                                                      \
        if (find_imported(module, kName)) handlers.add(module, kName, handle<module, kName, emit>); \
    } while (false)

void register_levels(Handlers& handlers) {
    STATOR_FUNCTION(kPredispatch, lazy_load_decompositions, changes_state);
    STATOR_FUNCTION(kPredispatch, _vmap_increment_nesting, changes_state);
    STATOR_FUNCTION(kPredispatch, _vmap_decrement_nesting, changes_state);
    STATOR_FUNCTION(kPredispatch, _jvp_increment_nesting, changes_state);
    STATOR_FUNCTION(kPredispatch, _jvp_decrement_nesting, changes_state);
    STATOR_FUNCTION(kPredispatch, _enter_dual_level, changes_state);
    STATOR_FUNCTION(kPredispatch, _exit_dual_level, changes_state);
    STATOR_FUNCTION(kFunctorch, _vmap_increment_nesting, changes_state);
    STATOR_FUNCTION(kFunctorch, _vmap_decrement_nesting, changes_state);
    STATOR_FUNCTION(kFunctorch, _grad_increment_nesting, changes_state);
    STATOR_FUNCTION(kFunctorch, _grad_decrement_nesting, changes_state);
    STATOR_FUNCTION(kFunctorch, _jvp_increment_nesting, changes_state);
    STATOR_FUNCTION(kFunctorch, _jvp_decrement_nesting, changes_state);
    STATOR_FUNCTION(kFunctorch, set_inplace_requires_grad_allowed, changes_state);
    STATOR_FUNCTION(kTorch, _enter_dual_level, changes_state);
    STATOR_FUNCTION(kTorch, _exit_dual_level, changes_state);
    STATOR_FUNCTION(kTorch, _set_fwd_grad_enabled, changes_state);
    STATOR_FUNCTION(kForward, _maybe_load_decompositions, changes_state);
    STATOR_FUNCTION(kAutograd, _saved_tensors_hooks_disable, changes_state);
    STATOR_FUNCTION(kAutograd, _saved_tensors_hooks_enable, changes_state);
}

void register_wrappers(Handlers& handlers) {
    STATOR_FUNCTION(kPredispatch, _add_batch_dim, computes);
    STATOR_FUNCTION(kPredispatch, _remove_batch_dim, computes);
    STATOR_FUNCTION(kPredispatch, _unwrap_for_grad, unwraps);
    STATOR_FUNCTION(kPredispatch, _make_dual, computes);
    STATOR_FUNCTION(kPredispatch, _unpack_dual, computes);
    STATOR_FUNCTION(kFunctorch, _add_batch_dim, computes);
    STATOR_FUNCTION(kFunctorch, _remove_batch_dim, computes);
    STATOR_FUNCTION(kFunctorch, _wrap_for_grad, computes);
    STATOR_FUNCTION(kFunctorch, _unwrap_for_grad, unwraps);
    STATOR_FUNCTION(kEager, _autograd_grad, computes);
    STATOR_FUNCTION(kEager, _set_tensor_requires_grad, sets_requires_grad);
}

void register_questions(Handlers& handlers) {
    STATOR_FUNCTION(kFunctorch, get_inplace_requires_grad_allowed, asks);
    STATOR_FUNCTION(kFunctorch, is_batchedtensor, asks);
    STATOR_FUNCTION(kFunctorch, is_gradtrackingtensor, asks);
    STATOR_FUNCTION(kFunctorch, is_functorch_wrapped_tensor, asks);
    STATOR_FUNCTION(kFunctorch, maybe_get_level, asks);
    STATOR_FUNCTION(kFunctorch, maybe_get_bdim, asks);
    STATOR_FUNCTION(kTorch, _are_functorch_transforms_active, asks);
    STATOR_FUNCTION(kTorch, _is_fwd_grad_enabled, asks);
    STATOR_FUNCTION(kAutograd, _saved_tensors_hooks_get_disabled_error_message, asks);
}

#undef STATOR_FUNCTION

}  // namespace

void register_function_transforms(Handlers& handlers) {
    register_levels(handlers);
    register_wrappers(handlers);
    register_questions(handlers);
}

void expect_no_transform(Tracer& tracer, const char* what) {
    if (tracer.recorder().is_in_transform())
        tracer.break_graph(BreakKind::UnsupportedTensor, std::string(what) + " inside of a torch.func transform");
}

}  // namespace stator
