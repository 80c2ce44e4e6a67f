#include "torch/prepared_calls.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "torch/errors.h"
#include "torch/recordable.h"
#include "torch/tensor.h"

namespace stator::torch_room {

namespace {

/// Warnings of operators, kept until the step that gave them has ended: giving one runs Python code.
class KeptWarnings : public c10::WarningHandler {
  public:
    void process(const c10::Warning& warning) override {
        kept_.push_back(warning);
        has_any = true;
    }
    /// Gives them as PyTorch's bindings do. Throws if the program made an exception of one.
    void give() {
        has_any = false;
        const std::vector<c10::Warning> warnings = std::exchange(kept_, {});
        torch::PyWarningHandler handler;
        for (const c10::Warning& warning : warnings) c10::warn(warning);
    }

    bool has_any = false;

  private:
    std::vector<c10::Warning> kept_;
};

/// The error is the one that the program sees, even if it makes exceptions of warnings.
void give_beside_error(KeptWarnings& warnings) {
    if (!warnings.has_any) return;
    try {
        warnings.give();
    } catch (python_error& error) {
        error.restore();
        PyErr_Clear();
    }
}

constexpr std::uint32_t kNoValue = ~std::uint32_t{0};

}  // namespace

struct TensorValues::Tensors {
    static constexpr std::size_t kHere = 64;
    at::Tensor here[kHere];
    std::vector<at::Tensor> more;
    at::Tensor* data = here;
    std::vector<c10::IValue> stack;
    std::size_t running = 0;  // step
};

TensorValues::TensorValues(std::size_t count) : tensors_(std::make_unique<Tensors>()) {
    if (count <= Tensors::kHere) return;
    tensors_->more.resize(count);
    tensors_->data = tensors_->more.data();
}

TensorValues::~TensorValues() = default;

void TensorValues::load(std::uint32_t number, Borrowed<> tensor) {
    tensors_->data[number] = THPVariable_Unpack(tensor.get());
}

Ref<> TensorValues::object(std::uint32_t number) const {
    return translating_errors([&] { return checked(THPVariable_Wrap(tensors_->data[number])); });
}

bool TensorValues::has(std::uint32_t number) const {
    return tensors_->data[number].defined();
}

void TensorValues::release(std::uint32_t number) {
    tensors_->data[number].reset();
}

at::Tensor* TensorValues::tensors() const {
    return tensors_->data;
}

struct CallObserver::Observed {
    struct Call {
        c10::OperatorHandle operation;
        std::vector<c10::IValue> inputs;
        std::vector<c10::IValue> outputs;
        bool has_ended = false;
    };
    std::vector<Call> calls;
    int depth = 0;
    bool is_understood = true;
    Observed* outer = nullptr;
    c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    bool with_grad = true;

    void start(const at::RecordFunction& function);
    void end(const at::RecordFunction& function);
};

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

}  // namespace

void CallObserver::Observed::start(const at::RecordFunction& function) {
    if (depth++ > 0) return;
    auto schema = function.operator_schema();
    std::optional<c10::OperatorHandle> operation;
    if (schema) operation = c10::Dispatcher::singleton().findSchema(schema->operator_name());
    // A function that changes modes around a call does so for each call.
    const bool in_other_modes =
        with_grad != c10::GradMode::is_enabled() || !same_keys(keys, c10::impl::tls_local_dispatch_key_set());
    if (!operation || in_other_modes || schema->arguments().size() != function.inputs().size()) {
        is_understood = false;
        return;
    }
    const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
    calls.push_back({.operation = *operation, .inputs = std::vector<c10::IValue>(inputs.begin(), inputs.end())});
}

void CallObserver::Observed::end(const at::RecordFunction& function) {
    if (--depth > 0 || calls.empty()) return;
    Call& call = calls.back();
    call.outputs = function.outputs();
    call.has_ended = true;
}

CallObserver::CallObserver() : observed_(std::make_unique<Observed>()) {
    observed_->outer = std::exchange(observing, observed_.get());
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(start_call, end_call)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
}

CallObserver::~CallObserver() {
    at::removeCallback(handle_);
    observing = observed_->outer;
}

void CallObserver::begin() {
    observed_->calls.clear();
    observed_->depth = 0;
    observed_->is_understood = true;
    observed_->keys = c10::impl::tls_local_dispatch_key_set();
    observed_->with_grad = c10::GradMode::is_enabled();
}

namespace {

/// An argument of a prepared call: a constant, or where its tensors are.
struct Slot {
    enum class Kind : std::uint8_t { Constant, Tensor, Tensors, OptionalTensors };
    Kind kind;
    std::uint32_t value = kNoValue;     // Tensor
    c10::IValue constant;               // Constant
    std::vector<std::uint32_t> values;  // Tensors; kNoValue is None
};

struct Call {
    c10::OperatorHandle operation;
    std::vector<Slot> slots;
    std::vector<std::uint32_t> results;
    bool returns_list = false;
};

/// Numbers the tensors that one step has met. A tensor is known by its implementation.
class KnownTensors {
  public:
    /// False if the same tensor is there twice: either could be meant.
    bool add(const at::Tensor& tensor, std::uint32_t value) {
        const std::uint32_t known = find(tensor);
        if (known != kNoValue) return known == value;
        known_.emplace_back(tensor.unsafeGetTensorImpl(), value);
        return true;
    }
    /// A result: from here on the name of this tensor.
    void name(const at::Tensor& tensor, std::uint32_t value) {
        for (auto& [implementation, number] : known_)
            if (implementation == tensor.unsafeGetTensorImpl()) {
                number = value;
                return;
            }
        known_.emplace_back(tensor.unsafeGetTensorImpl(), value);
    }
    std::uint32_t find(const at::Tensor& tensor) const {
        for (const auto& [implementation, value] : known_)
            if (implementation == tensor.unsafeGetTensorImpl()) return value;
        return kNoValue;
    }

  private:
    std::vector<std::pair<const c10::TensorImpl*, std::uint32_t>> known_;
};

/// A dense tensor without a wrapper around it.
bool is_plain(const at::Tensor& tensor) {
    using c10::DispatchKey;
    if (!tensor.defined()) return false;
    const c10::DispatchKeySet keys = tensor.key_set();
    return tensor.layout() == c10::kStrided && !keys.has(DispatchKey::Python) &&
           !keys.has(DispatchKey::FuncTorchBatched) && !keys.has(DispatchKey::FuncTorchGradWrapper) &&
           !keys.has(DispatchKey::BatchedNestedTensor) && !keys.has(DispatchKey::NestedTensor) &&
           !keys.has(DispatchKey::Functionalize) && !keys.has(DispatchKey::Meta);
}

bool is_constant(const c10::IValue& value) {
    return value.isNone() || value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble() ||
           value.isString() || value.isDevice() || value.isIntList() || value.isDoubleList() || value.isBoolList();
}

std::optional<Slot> tensor_slot(const at::Tensor& tensor, const KnownTensors& known) {
    if (!tensor.defined()) return Slot{Slot::Kind::Constant, kNoValue, c10::IValue(tensor), {}};
    if (std::uint32_t value = known.find(tensor); value != kNoValue) return Slot{Slot::Kind::Tensor, value, {}, {}};
    // The binding has made it of a number among the operands. Operators don't write to it.
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.dim() == 0 && tensor.device().is_cpu())
        return Slot{Slot::Kind::Constant, kNoValue, c10::IValue(tensor), {}};
    return std::nullopt;
}

std::optional<Slot> slot_of(const c10::IValue& input, const KnownTensors& known) {
    if (input.isTensor()) return tensor_slot(input.toTensor(), known);
    if (is_constant(input)) return Slot{Slot::Kind::Constant, kNoValue, input, {}};
    if (input.isTensorList()) {
        Slot slot{Slot::Kind::Tensors, kNoValue, {}, {}};
        for (const at::Tensor& tensor : input.toTensorVector()) {
            slot.values.push_back(tensor.defined() ? known.find(tensor) : kNoValue);
            if (slot.values.back() == kNoValue) return std::nullopt;
        }
        return slot;
    }
    if (input.isOptionalTensorList()) {
        Slot slot{Slot::Kind::OptionalTensors, kNoValue, {}, {}};
        for (const std::optional<at::Tensor>& tensor : input.toOptionalTensorVector()) {
            slot.values.push_back(tensor ? known.find(*tensor) : kNoValue);
            if (tensor && slot.values.back() == kNoValue) return std::nullopt;
        }
        return slot;
    }
    return std::nullopt;
}

/// Whether the binding has marked a new tensor as a leaf that requires gradients, which is not a call.
bool was_marked(const at::Tensor& tensor) {
    return tensor.requires_grad() && tensor.is_leaf();
}

/// Tensors of a result. False if it has anything else.
bool tensors_of(const std::vector<c10::IValue>& outputs, std::vector<at::Tensor>* tensors, bool* is_list) {
    *is_list = outputs.size() == 1 && outputs[0].isTensorList();
    if (*is_list) {
        for (const at::Tensor& tensor : outputs[0].toTensorVector()) tensors->push_back(tensor);
    } else {
        for (const c10::IValue& output : outputs) {
            if (!output.isTensor()) return false;
            tensors->push_back(output.toTensor());
        }
    }
    return std::ranges::all_of(*tensors, is_plain);
}

}  // namespace

struct PreparedCalls::Step {
    std::vector<Call> calls;
    std::vector<std::uint32_t> released;
    Recordability recordability;  // of all of its calls
};

PreparedCalls::PreparedCalls(std::size_t steps, std::uint32_t first_value) : steps_(steps), value_count_(first_value) {}
PreparedCalls::~PreparedCalls() = default;

namespace {

/// The result of a step, if it is made of tensors that its calls returned.
std::optional<PreparedResult> result_of(Borrowed<> result, const KnownTensors& known) {
    using Kind = PreparedResult::Kind;
    if (result.get() == Py_None) return PreparedResult{Kind::None, {}};
    auto value_of = [&](PyObject* object) {
        return is_tensor(object) ? known.find(THPVariable_Unpack(object)) : kNoValue;
    };
    if (is_tensor(result)) {
        const std::uint32_t value = value_of(result.get());
        if (value == kNoValue) return std::nullopt;
        return PreparedResult{Kind::Tensor, {value}};
    }
    const bool is_list = PyList_CheckExact(result.get());
    if (!is_list && !PyTuple_Check(result.get())) return std::nullopt;
    PreparedResult tuple{Kind::Tuple, {}};
    PyObject** const items = PySequence_Fast_ITEMS(result.get());
    for (Py_ssize_t i = 0; i < Py_SIZE(result.get()); ++i) {
        tuple.values.push_back(value_of(items[i]));
        if (tuple.values.back() == kNoValue) return std::nullopt;
    }
    return tuple;
}

}  // namespace

namespace {

Recordability recordability_of(const std::vector<CallObserver::Observed::Call>& calls) {
    Recordability all;
    for (const auto& call : calls) {
        const Recordability one = recordability(call.operation, call.inputs, call.outputs);
        if (one.reason == nullptr && all.device && one.device && *all.device != *one.device)
            return {"it has tensors on several devices", std::nullopt};
        if (one.reason != nullptr) return one;
        if (one.device) all.device = one.device;
    }
    return all;
}

}  // namespace

std::optional<PreparedResult> PreparedCalls::prepare(std::size_t step, const CallObserver& observer,
                                                     std::span<const OperandTensor> operands, Borrowed<> result,
                                                     Sizes sizes) {
    const CallObserver::Observed& observed = *observer.observed_;
    if (!observed.is_understood || observed.calls.empty()) return std::nullopt;
    // Which calls a function of several makes may depend on sizes.
    if (sizes == Sizes::Change && observed.calls.size() > 1) return std::nullopt;
    KnownTensors known;
    for (const OperandTensor& operand : operands) {
        const at::Tensor& tensor = THPVariable_Unpack(operand.tensor);
        if (!is_plain(tensor) || !known.add(tensor, operand.value)) return std::nullopt;
    }
    std::vector<Call> calls;
    std::uint32_t next = value_count_;
    for (const auto& made : observed.calls) {
        if (!made.has_ended) return std::nullopt;
        Call call{made.operation, {}, {}};
        for (const c10::IValue& input : made.inputs) {
            std::optional<Slot> slot = slot_of(input, known);
            if (!slot) return std::nullopt;
            call.slots.push_back(std::move(*slot));
        }
        std::vector<at::Tensor> outputs;
        if (!tensors_of(made.outputs, &outputs, &call.returns_list)) return std::nullopt;
        if (sizes == Sizes::Change && call.returns_list) return std::nullopt;
        for (const at::Tensor& output : outputs) {
            if (known.find(output) == kNoValue && was_marked(output)) return std::nullopt;
            call.results.push_back(next);
            known.name(output, next++);
        }
        calls.push_back(std::move(call));
    }
    std::optional<PreparedResult> prepared = result_of(result, known);
    if (!prepared) return std::nullopt;
    for (std::uint32_t value = value_count_; value < next; ++value)
        if (std::ranges::find(prepared->values, value) == prepared->values.end()) release_after(step, value);
    value_count_ = next;
    steps_[step].calls = std::move(calls);
    steps_[step].recordability = recordability_of(observed.calls);
    return prepared;
}

void PreparedCalls::release_after(std::size_t step, std::uint32_t value) {
    steps_[step].released.push_back(value);
}

void PreparedCalls::release(std::size_t step, TensorValues& values) const {
    for (std::uint32_t value : steps_[step].released) values.release(value);
}

std::size_t PreparedCalls::call_count() const {
    std::size_t count = 0;
    for (const Step& step : steps_) count += step.calls.size();
    return count;
}

namespace {

void fill(const Call& call, const at::Tensor* values, std::vector<c10::IValue>& stack) {
    for (const Slot& slot : call.slots) {
        switch (slot.kind) {
            case Slot::Kind::Constant:
                stack.emplace_back(slot.constant);
                break;
            case Slot::Kind::Tensor:
                stack.emplace_back(values[slot.value]);
                break;
            case Slot::Kind::Tensors: {
                c10::List<at::Tensor> list;
                list.reserve(slot.values.size());
                for (std::uint32_t value : slot.values) list.push_back(values[value]);
                stack.emplace_back(std::move(list));
                break;
            }
            case Slot::Kind::OptionalTensors: {
                c10::List<std::optional<at::Tensor>> list;
                list.reserve(slot.values.size());
                for (std::uint32_t value : slot.values)
                    list.push_back(value == kNoValue ? std::nullopt : std::optional<at::Tensor>(values[value]));
                stack.emplace_back(std::move(list));
                break;
            }
        }
    }
}

void take_results(const Call& call, std::vector<c10::IValue>& stack, at::Tensor* values) {
    if (call.returns_list) {
        std::vector<at::Tensor> tensors = std::move(stack[0]).toTensorVector();
        TORCH_CHECK(tensors.size() == call.results.size(), call.operation.schema().name(), " returned ", tensors.size(),
                    " tensors, not ", call.results.size());
        for (std::size_t i = 0; i < tensors.size(); ++i) values[call.results[i]] = std::move(tensors[i]);
    } else {
        for (std::size_t i = 0; i < call.results.size(); ++i) values[call.results[i]] = std::move(stack[i]).toTensor();
    }
    stack.clear();
}

}  // namespace

std::size_t PreparedCalls::call_count(std::size_t step) const {
    return steps_[step].calls.size();
}

CallValues PreparedCalls::values_of(std::size_t step, std::size_t call) const {
    const Call& made = steps_[step].calls[call];
    CallValues values;
    values.results = made.results;
    values.is_mutable = made.operation.schema().is_mutable();
    const std::vector<bool> is_written = written_arguments(made.operation.schema());
    for (std::size_t i = 0; i < made.slots.size(); ++i) {
        auto add = [&](std::uint32_t value) {
            if (value == kNoValue) return;
            values.operands.push_back(value);
            if (is_written[i]) values.written.push_back(value);
        };
        add(made.slots[i].value);
        for (std::uint32_t value : made.slots[i].values) add(value);
    }
    return values;
}

void PreparedCalls::run_call(std::size_t step, std::size_t call, TensorValues& values) const {
    const Call& made = steps_[step].calls[call];
    std::vector<c10::IValue> stack;
    fill(made, values.tensors_->data, stack);
    made.operation.callBoxed(stack);
    take_results(made, stack, values.tensors_->data);
}

const std::vector<std::uint32_t>& PreparedCalls::released_after(std::size_t step) const {
    return steps_[step].released;
}

const char* PreparedCalls::why_not_recorded(std::size_t step) const {
    return steps_[step].recordability.reason;
}

std::int32_t PreparedCalls::device_of(std::size_t step) const {
    const std::optional<c10::Device>& device = steps_[step].recordability.device;
    return device ? static_cast<std::int32_t>(device->type()) << 8 | static_cast<std::uint8_t>(device->index()) : -1;
}

/// Runs steps up to the first one that gives a warning, and returns the next one.
std::size_t PreparedCalls::run_quietly(std::size_t at, std::size_t last, TensorValues& values,
                                       const bool& has_warned) const {
    at::Tensor* const tensors = values.tensors_->data;
    std::vector<c10::IValue>& stack = values.tensors_->stack;
    for (; at < last && !has_warned; ++at) {
        values.tensors_->running = at;
        for (const Call& call : steps_[at].calls) {
            fill(call, tensors, stack);
            call.operation.callBoxed(stack);
            take_results(call, stack, tensors);
        }
        for (std::uint32_t value : steps_[at].released) tensors[value].reset();
    }
    return at;
}

std::optional<std::size_t> PreparedCalls::run(std::size_t first, std::size_t last, TensorValues& values) const {
    KeptWarnings warnings;
    try {
        for (std::size_t at = first; at < last;) {
            {
                c10::WarningUtils::WarningHandlerGuard guard(&warnings);
                pybind11::gil_scoped_release without_lock;
                at = run_quietly(at, last, values, warnings.has_any);
            }
            if (warnings.has_any) warnings.give();
        }
        return std::nullopt;
    } catch (...) {
        values.tensors_->stack.clear();
        std::exception_ptr raised = std::current_exception();
        give_beside_error(warnings);
        torch::translate_exception_to_python(raised);
        return values.tensors_->running;
    }
}

DispatchState read_dispatch_state() {
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    return {keys.included_.raw_repr(), keys.excluded_.raw_repr(),
            at::impl::PythonTorchFunctionTLS::stack_len() > 0 || c10::impl::TorchDispatchModeTLS::any_modes_set() ||
                at::hasCallbacks() || torch::autograd::AnomalyMode::is_enabled()};
}

}  // namespace stator::torch_room
