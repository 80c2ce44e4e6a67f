#include "torch/calls/call_observer.h"

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace stator::torch_room {

namespace {

/// The innermost observer of this thread.
thread_local CallObserver::Observed* observing = nullptr;

std::unique_ptr<at::ObserverContext> start_call(const at::RecordFunction& function) {
    if (observing != nullptr) observing->start(function);
    return nullptr;
}

void end_call(const at::RecordFunction& function, at::ObserverContext*) {
    if (observing != nullptr) observing->end(function);
}

bool same_keys(const c10::impl::LocalDispatchKeySet& a, const c10::impl::LocalDispatchKeySet& b) {
    return a.included_ == b.included_ && a.excluded_ == b.excluded_;
}

/// Whether the binding has only left autograd before the call, as those of `arange`, `zeros` and `rand_like` do.
bool leaves_autograd(const c10::impl::LocalDispatchKeySet& before, const at::RecordFunction& function) {
    const c10::impl::LocalDispatchKeySet now = c10::impl::tls_local_dispatch_key_set();
    if (now.included_ != before.included_ ||
        now.excluded_ != (before.excluded_ | c10::autograd_dispatch_keyset_with_ADInplaceOrView))
        return false;
    return std::ranges::all_of(function.inputs(), [](const c10::IValue& input) {
        return !input.isList() ? !input.isTensor() || !input.toTensor().requires_grad() : !input.isTensorList();
    });
}

/// Operators without kernels of their own that choose the operators they call by sizes, strides, dtypes and arguments,
/// and not by settings or data. `scaled_dot_product_attention`, for one, reads settings.
bool is_composite(const c10::OperatorHandle& operation) {
    static const std::unordered_set<std::string_view> names = {
        "aten::linear",     "aten::matmul",  "aten::einsum",     "aten::softmax",    "aten::log_softmax",
        "aten::layer_norm", "aten::reshape", "aten::group_norm", "aten::batch_norm", "aten::_batch_norm_impl_index",
        "aten::conv1d",     "aten::conv2d",  "aten::conv3d",     "aten::max_pool2d", "aten::adaptive_avg_pool2d",
        "aten::flatten",    "aten::to",      "aten::contiguous", "aten::expand_as",  "aten::type_as"};
    const c10::FunctionSchema& schema = operation.schema();
    return names.contains(schema.name()) && !schema.is_mutable() &&
           operation.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

}  // namespace

bool chooses_without_sizes(const c10::OperatorHandle& operation, const std::vector<c10::IValue>& inputs) {
    static const std::unordered_set<std::string_view> names = {
        "aten::softmax", "aten::log_softmax", "aten::layer_norm", "aten::conv1d",
        "aten::conv2d",  "aten::conv3d",      "aten::max_pool2d", "aten::type_as"};
    const std::string_view name = operation.schema().name();
    auto is_matrix = [&](std::size_t i) { return inputs[i].isTensor() && inputs[i].toTensor().dim() == 2; };
    // Products of more dimensions fold some of them, and without a bias a product is all that it is.
    if (name == "aten::linear") return is_matrix(0) && is_matrix(1);
    if (name == "aten::matmul") return is_matrix(0) && is_matrix(1);
    // A memory format asks for strides.
    if (name == "aten::to") return inputs.back().isNone();
    return names.contains(name);
}

void CallObserver::Observed::start(const at::RecordFunction& function) {
    const bool is_inner = open != kNone;
    if (unrecorded > 0 || (is_inner && !calls[open].is_composite)) {
        ++unrecorded;
        if (++unasked == kFewUnasked) at::enableRecordFunction(false);
        return;
    }
    // The name alone: `operator_schema` would copy all arguments' names, types and defaults.
    auto name = function.operator_name();
    std::optional<c10::OperatorHandle> operation;
    if (name) operation = c10::Dispatcher::singleton().findSchema(*name);
    // A function that changes modes around a call does so for each call.
    const bool has_same_keys = same_keys(keys, c10::impl::tls_local_dispatch_key_set());
    const bool is_below_autograd = !has_same_keys && !is_inner && leaves_autograd(keys, function);
    const bool in_other_modes = with_grad != c10::GradMode::is_enabled() || (!has_same_keys && !is_below_autograd);
    if (!operation || in_other_modes || operation->schema().arguments().size() != function.inputs().size()) {
        (is_inner ? calls[open].is_understood : is_understood) = false;
        ++unrecorded;
        return;
    }
    const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
    calls.push_back({.operation = *operation,
                     .inputs = std::vector<c10::IValue>(inputs.begin(), inputs.end()),
                     .is_composite = !is_below_autograd && is_composite(*operation),
                     .is_below_autograd = is_below_autograd,
                     .parent = open});
    open = calls.size() - 1;
}

void CallObserver::Observed::end(const at::RecordFunction& function) {
    if (unrecorded > 0) {
        if (--unrecorded == 0 && (open == kNone || calls[open].is_composite)) ask_again();
        return;
    }
    if (open == kNone) return;
    Call& call = calls[open];
    ask_again();
    call.outputs = function.outputs();
    call.has_ended = true;
    open = call.parent;
}

void CallObserver::Observed::ask_again() {
    if (std::exchange(unasked, 0) >= kFewUnasked) at::enableRecordFunction(true);
}

void CallObserver::Observed::begin() {
    ask_again();
    calls.clear();
    open = kNone;
    unrecorded = 0;
    is_understood = true;
    keys = c10::impl::tls_local_dispatch_key_set();
    with_grad = c10::GradMode::is_enabled();
}

CallObserver::CallObserver() : observed_(std::make_unique<Observed>()), was_enabled_(at::isRecordFunctionEnabled()) {
    // An operator of the program may run a graph, inside of a call that another observer has seen.
    at::enableRecordFunction(true);
    observed_->outer = std::exchange(observing, observed_.get());
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(start_call, end_call)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
}

CallObserver::~CallObserver() {
    at::removeCallback(handle_);
    at::enableRecordFunction(was_enabled_);
    observing = observed_->outer;
}

void CallObserver::begin() {
    observed_->begin();
}

}  // namespace stator::torch_room
