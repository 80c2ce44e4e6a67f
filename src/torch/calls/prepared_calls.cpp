#include "torch/calls/prepared_calls.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <utility>

#include "torch/calls/call_observer.h"
#include "torch/calls/number_operands.h"
#include "torch/calls/operator_call.h"
#include "torch/calls/prepared_step.h"
#include "torch/calls/recordable.h"
#include "torch/calls/row_plan.h"
#include "torch/errors.h"
#include "torch/tensor.h"

namespace stator::torch_room {

namespace {

/// The interpreter's lock is released while it lives. (The class of pybind11 looks up its own state first, which takes
/// longer than a small graph may take.)
class WithoutLock {
  public:
    WithoutLock() : thread_(PyEval_SaveThread()) {}
    ~WithoutLock() { PyEval_RestoreThread(thread_); }
    WithoutLock(const WithoutLock&) = delete;
    WithoutLock& operator=(const WithoutLock&) = delete;

  private:
    PyThreadState* thread_;
};

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

}  // namespace

struct TensorValues::Tensors {
    static constexpr std::size_t kHere = 64;

    explicit Tensors(std::size_t count) : count(count) {
        if (count > kHere) more = std::make_unique<Slot[]>(count);
        data = reinterpret_cast<at::Tensor*>(more ? more.get() : here);
        std::uninitialized_default_construct_n(data, count);
    }
    ~Tensors() { std::destroy_n(data, count); }
    Tensors(const Tensors&) = delete;
    Tensors& operator=(const Tensors&) = delete;

    /// Memory of a tensor: most programs have few, and creating and destroying one takes some instructions.
    struct alignas(at::Tensor) Slot {
        std::byte bytes[sizeof(at::Tensor)];
    };
    std::size_t count;
    Slot here[kHere];
    std::unique_ptr<Slot[]> more;
    at::Tensor* data;
    std::vector<c10::IValue> stack;
    std::vector<c10::IValue> numbers;
    std::size_t running = 0;  // step
};

TensorValues::TensorValues(std::size_t count) : tensors_(std::make_unique<Tensors>(count)) {}

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

bool TensorValues::load_number(std::uint32_t number, Borrowed<> object) {
    std::optional<c10::IValue> value = as_number(object);
    if (!value) return false;
    if (tensors_->numbers.size() <= number) tensors_->numbers.resize(number + 1);
    tensors_->numbers[number] = std::move(*value);
    return true;
}

at::Tensor* TensorValues::tensors() const {
    return tensors_->data;
}

namespace {

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
    if (!tensor.defined()) return Slot{Slot::Kind::Constant, kNoValue, c10::IValue(tensor), {}, {}};
    if (std::uint32_t value = known.find(tensor); value != kNoValue) return Slot{Slot::Kind::Tensor, value, {}, {}, {}};
    // The binding has made it of a number among the operands. Operators don't write to it.
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.dim() == 0 && tensor.device().is_cpu())
        return Slot{Slot::Kind::Constant, kNoValue, c10::IValue(tensor), {}, {}};
    return std::nullopt;
}

std::optional<Slot> slot_of(const c10::IValue& input, const KnownTensors& known) {
    if (input.isTensor()) return tensor_slot(input.toTensor(), known);
    if (is_constant(input))
        return Slot{Slot::Kind::Constant,
                    kNoValue,
                    input,
                    {},
                    input.isIntList() ? input.toIntVector() : std::vector<std::int64_t>()};
    if (input.isTensorList()) {
        Slot slot{Slot::Kind::Tensors, kNoValue, {}, {}, {}};
        for (const at::Tensor& tensor : input.toTensorVector()) {
            slot.values.push_back(tensor.defined() ? known.find(tensor) : kNoValue);
            if (slot.values.back() == kNoValue) return std::nullopt;
        }
        return slot;
    }
    if (input.isOptionalTensorList()) {
        Slot slot{Slot::Kind::OptionalTensors, kNoValue, {}, {}, {}};
        for (const std::optional<at::Tensor>& tensor : input.toOptionalTensorVector()) {
            slot.values.push_back(tensor ? known.find(*tensor) : kNoValue);
            if (tensor && slot.values.back() == kNoValue) return std::nullopt;
        }
        return slot;
    }
    return std::nullopt;
}

/// Whether the binding has marked a new tensor as a leaf that requires gradients, which is not a call. A view of such a
/// leaf, made while gradients are off, is a leaf that requires gradients too.
bool was_marked(const at::Tensor& tensor) {
    return tensor.requires_grad() && tensor.is_leaf() && !tensor.is_view();
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
        const bool is_inner = call.parent != CallObserver::Observed::kNone;
        const Recordability one = recordability(call.operation, call.inputs, call.outputs, is_inner);
        if (one.reason == nullptr && all.device && one.device && *all.device != *one.device)
            return {"it has tensors on several devices", std::nullopt};
        if (one.reason != nullptr) return one;
        if (one.device) all.device = one.device;
    }
    return all;
}

Level level_of(const c10::OperatorHandle& operation) {
    using c10::DispatchKey;
    auto has = [&](DispatchKey key) { return operation.hasKernelForDispatchKey(key); };
    // The last two are functions of the program's own for the operator's gradients, which may do anything.
    if (!has(DispatchKey::Autograd) || has(DispatchKey::CompositeImplicitAutograd) || has(DispatchKey::AutogradCPU) ||
        has(DispatchKey::AutogradCUDA))
        return Level::Top;
    auto is_alias = [](const c10::Argument& argument) { return argument.alias_info() != nullptr; };
    const c10::FunctionSchema& schema = operation.schema();
    if (std::ranges::none_of(schema.arguments(), is_alias) && std::ranges::none_of(schema.returns(), is_alias))
        return Level::BelowViewTracking;
    return has(DispatchKey::ADInplaceOrView) ? Level::BelowAutograd : Level::Top;
}

using Seen = CallObserver::Observed::Call;

}  // namespace

/// Numbers among the arguments of calls, which the bindings have wrapped in tensors. One tensor for all that are alike.
class PreparedCalls::WrappedNumbers {
  public:
    c10::IValue share(const c10::IValue& constant) {
        if (!constant.isTensor() || !constant.toTensor().defined()) return constant;
        const at::Tensor& tensor = constant.toTensor();
        std::uint64_t bits = 0;
        if (static_cast<std::size_t>(tensor.element_size()) > sizeof bits) return constant;
        std::memcpy(&bits, tensor.const_data_ptr(), static_cast<std::size_t>(tensor.element_size()));
        return known_.try_emplace({tensor.scalar_type(), bits}, constant).first->second;
    }

  private:
    std::map<std::pair<at::ScalarType, std::uint64_t>, c10::IValue> known_;
};

PreparedCalls::PreparedCalls(std::size_t steps, std::uint32_t first_value)
    : steps_(steps), value_count_(first_value), numbers_(std::make_unique<WrappedNumbers>()) {}
PreparedCalls::~PreparedCalls() = default;

namespace {

/// Makes calls of those that were seen.
class CallWriter {
  public:
    CallWriter(KnownTensors known, std::uint32_t first, PreparedCalls::Sizes sizes,
               PreparedCalls::WrappedNumbers& numbers)
        : known(std::move(known)),
          next(first),
          has_fixed_sizes_(sizes == PreparedCalls::Sizes::Fixed),
          numbers_(&numbers) {}

    /// False if the call depends on anything else than its operands.
    bool add(const Seen& seen, std::span<const GivenOperand> given = {}) {
        if (!seen.has_ended) return false;
        Call call{.operation = seen.operation,
                  .level = level_of(seen.operation),
                  .is_below_autograd = seen.is_below_autograd};
        call.slots.reserve(seen.inputs.size());
        for (const c10::IValue& input : seen.inputs) {
            std::optional<Slot> slot = slot_of(input, known);
            if (!slot) return false;
            slot->constant = numbers_->share(slot->constant);
            call.slots.push_back(std::move(*slot));
        }
        if (!given.empty() && !place_numbers(call, given)) return false;
        std::vector<at::Tensor> outputs;
        if (!tensors_of(seen.outputs, &outputs, &call.returns_list)) return false;
        for (const at::Tensor& output : outputs) {
            if (known.find(output) == kNoValue && was_marked(output)) return false;
            call.results.push_back(next);
            known.name(output, next);
            if (seen.is_below_autograd) below_autograd.emplace_back(output, next);
            ++next;
        }
        if (given.empty()) find_direct_call(call);
        calls.push_back(std::move(call));
        return true;
    }

    /// Adds the calls that a composite operator made in its place. False if they are not understood.
    bool add_inner(const std::vector<Seen>& seen, std::size_t parent) {
        if (!seen[parent].is_understood || !seen[parent].has_ended) return false;
        for (std::size_t i = parent + 1; i < seen.size(); ++i)
            if (seen[i].parent == parent && !add_plain(seen, i)) return false;
        return true;
    }

    /// Adds a call, or the calls that it consists of.
    bool add_plain(const std::vector<Seen>& seen, std::size_t at) {
        if (seen[at].is_composite && (has_fixed_sizes_ || chooses_without_sizes(seen[at].operation, seen[at].inputs))) {
            const CallWriter before = *this;
            if (add_inner(seen, at) && knows_results(seen[at])) return true;
            *this = before;
        }
        return add(seen[at]);
    }

    /// A result that the binding has made of one below autograd: the same tensor, as autograd sees it.
    void name_result(Borrowed<> result) {
        if (!is_tensor(result)) return;
        const at::Tensor& tensor = THPVariable_Unpack(result.get());
        for (const auto& [below, value] : below_autograd)
            if (known.find(tensor) == kNoValue && tensor.is_alias_of(below) && tensor.sizes() == below.sizes() &&
                tensor.strides() == below.strides() && tensor.dtype() == below.dtype() && !tensor.requires_grad())
                known.name(tensor, value);
    }

    KnownTensors known;
    std::uint32_t next;
    std::vector<Call> calls;
    std::vector<std::pair<at::Tensor, std::uint32_t>> below_autograd;

  private:
    /// A result that is no tensor is read by another composite operator only.
    bool knows_results(const Seen& seen) const {
        return std::ranges::all_of(seen.outputs, [&](const c10::IValue& output) {
            if (output.isTensorList()) return false;
            return !output.isTensor() || known.find(output.toTensor()) != kNoValue;
        });
    }

    bool has_fixed_sizes_;
    PreparedCalls::WrappedNumbers* numbers_;
};

bool wants_gradient(const at::Tensor& tensor) {
    return tensor.requires_grad();
}

/// Lets each call release what no later one of the step reads. `first` is the first number of the step's own values.
void release_early(std::vector<Call>& calls, std::uint32_t first, const std::vector<std::uint32_t>& kept) {
    std::vector<std::uint32_t> done = kept;
    auto release = [&](Call& call, std::uint32_t value) {
        if (value == kNoValue || value < first || std::ranges::find(done, value) != done.end()) return;
        done.push_back(value);
        call.released.push_back(value);
    };
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
        for (std::uint32_t value : call->results) release(*call, value);
        for (const Slot& slot : call->slots) {
            slot.for_each_tensor([&](std::uint32_t value) { release(*call, value); });
        }
    }
}

void rename(std::vector<Call>& calls, std::uint32_t from, std::uint32_t to) {
    for (Call& call : calls) {
        std::ranges::replace(call.results, from, to);
        for (Slot& slot : call.slots) {
            if (slot.value == from) slot.value = to;
            std::ranges::replace(slot.values, from, to);
        }
    }
}

}  // namespace

/// Prepares the step once more for runs in which no gradient is wanted, in which composite operators do nothing but
/// to call others. The results get the numbers that they have in the other case.
void PreparedCalls::prepare_plain(PreparedStep& step, const CallObserver& observer,
                                  std::span<const OperandTensor> operands, Borrowed<> result,
                                  const PreparedResult& prepared, Sizes sizes) {
    const CallObserver::Observed& observed = *observer.observed_;
    if (std::ranges::none_of(observed.calls, &Seen::is_composite)) return;
    KnownTensors known;
    for (const OperandTensor& operand : operands) {
        const at::Tensor& tensor = THPVariable_Unpack(operand.tensor);
        if (c10::GradMode::is_enabled() && wants_gradient(tensor)) return;
        known.add(tensor, operand.value);
    }
    const std::uint32_t first = value_count_;
    CallWriter writer(std::move(known), first, sizes, *numbers_);
    for (std::size_t i = 0; i < observed.calls.size(); ++i)
        if (observed.calls[i].parent == CallObserver::Observed::kNone && !writer.add_plain(observed.calls, i)) return;
    writer.name_result(result);
    std::optional<PreparedResult> plain = result_of(result, writer.known);
    if (!plain || plain->kind != prepared.kind || plain->values.size() != prepared.values.size()) return;
    std::vector<Alias> aliases;
    std::vector<std::uint32_t> kept;
    for (std::size_t i = 0; i < prepared.values.size(); ++i) {
        const std::uint32_t from = plain->values[i], to = prepared.values[i];
        if (from == to) continue;
        if (from >= first && std::ranges::count(plain->values, from) == 1)
            rename(writer.calls, from, to), kept.push_back(to);
        else
            aliases.push_back({from, to}), kept.push_back(from);
    }
    release_early(writer.calls, first, kept);
    step.plain_calls = std::move(writer.calls);
    step.aliases = std::move(aliases);
    step.has_plain_calls = true;
    for (const Alias& alias : step.aliases)
        if (alias.from >= first) step.released.push_back(alias.from);
    value_count_ = writer.next;
}

std::optional<PreparedResult> PreparedCalls::prepare(std::size_t step, const CallObserver& observer,
                                                     const StepOperands& operands, Borrowed<> result, Sizes sizes) {
    const CallObserver::Observed& observed = *observer.observed_;
    if (!observed.is_understood || observed.calls.empty()) return std::nullopt;
    KnownTensors known;
    for (const OperandTensor& operand : operands.tensors) {
        const at::Tensor& tensor = THPVariable_Unpack(operand.tensor);
        if (!is_plain(tensor) || !known.add(tensor, operand.value)) return std::nullopt;
    }
    const std::uint32_t first = value_count_;
    CallWriter writer(std::move(known), first, sizes, *numbers_);
    for (const Seen& seen : observed.calls) {
        if (seen.parent != CallObserver::Observed::kNone) continue;
        // Which calls a function of several makes may depend on sizes.
        const bool makes_one_call = sizes == Sizes::ChangeInOneCall || !operands.given.empty();
        if (makes_one_call && !writer.calls.empty()) return std::nullopt;
        if (!writer.add(seen, operands.given)) return std::nullopt;
    }
    writer.name_result(result);
    std::optional<PreparedResult> prepared = result_of(result, writer.known);
    if (!prepared) return std::nullopt;
    release_early(writer.calls, first, prepared->values);
    value_count_ = writer.next;
    steps_[step].calls = std::move(writer.calls);
    steps_[step].recordability = recordability_of(observed.calls);
    if (!operands.given.empty())
        steps_[step].recordability.reason = "it takes a number that changes between calls";
    else
        prepare_plain(steps_[step], observer, operands.tensors, result, *prepared, sizes);
    return prepared;
}

void PreparedCalls::release_after(std::size_t step, std::uint32_t value) {
    steps_[step].released.push_back(value);
}

void PreparedCalls::plan_memory(std::size_t first, std::size_t last) {
    std::size_t calls = 0;
    for (std::size_t step = first; step < last; ++step) calls += steps_[step].calls_without_autograd().size();
    if (calls > 1) steps_[first].row = std::make_unique<PlannedRow>(steps_, first, last);
}

PreparedCalls::PlannedMemory PreparedCalls::planned_memory() const {
    PlannedMemory memory;
    for (const PreparedStep& step : steps_) {
        const RowPlan* const plan = step.row == nullptr ? nullptr : step.row->plan();
        if (plan == nullptr) continue;
        memory.values += plan->results;
        memory.views += plan->kept.size() - plan->results + plan->moving.size();
        for (const RowPlan::Chunk& chunk : plan->chunks) memory.bytes += chunk.memory.bytes();
    }
    return memory;
}

void PreparedCalls::release(std::size_t step, TensorValues& values) const {
    for (std::uint32_t value : steps_[step].released) values.release(value);
}

std::size_t PreparedCalls::call_count() const {
    std::size_t count = 0;
    for (const PreparedStep& step : steps_) count += step.calls.size();
    return count;
}

std::vector<std::string> PreparedCalls::operators(Gradients gradients) const {
    std::vector<std::string> names;
    for (const PreparedStep& step : steps_) {
        const bool is_plain = gradients == Gradients::NotWanted && step.has_plain_calls;
        for (const Call& call : is_plain ? step.plain_calls : step.calls)
            names.push_back(c10::toString(call.operation.operator_name()));
    }
    return names;
}

std::size_t PreparedCalls::call_count(std::size_t step) const {
    return steps_[step].calls.size();
}

CallValues PreparedCalls::values_of(std::size_t step, std::size_t call) const {
    const Call& made = steps_[step].calls[call];
    CallValues values;
    values.results = made.results;
    values.released = made.released;
    values.is_mutable = made.operation.schema().is_mutable();
    const std::vector<bool> is_written = written_arguments(made.operation.schema());
    for (std::size_t i = 0; i < made.slots.size(); ++i) {
        made.slots[i].for_each_tensor([&](std::uint32_t value) {
            values.operands.push_back(value);
            if (is_written[i]) values.written.push_back(value);
        });
    }
    return values;
}

void PreparedCalls::run_call(std::size_t step, std::size_t call, TensorValues& values) const {
    const Call& made = steps_[step].calls[call];
    std::vector<c10::IValue> stack;
    make_call(made, {values.tensors_->data, values.tensors_->numbers, stack});
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

namespace {

template <class Make>
void make_calls(const std::vector<Call>& calls, const Make& make, const Memory& memory) {
    for (const Call& call : calls) {
        make(call, memory);
        for (std::uint32_t value : call.released) memory.values[value].reset();
    }
}

}  // namespace

/// How the calls of one run are made.
struct PreparedCalls::Way {
    bool without_autograd;
    PlannedRow::Run planned;
};

/// Whether autograd's kernels would do nothing but to go on.
bool PreparedCalls::needs_no_autograd(std::span<const std::uint32_t> read, const TensorValues& values) {
    if (c10::GradMode::is_enabled()) {
        const at::Tensor* const tensors = values.tensors_->data;
        for (std::uint32_t number : read)
            if (tensors[number].defined() && wants_gradient(tensors[number])) return false;
    }
    // Tangents of forward-mode differentiation exist only inside of a level.
    return torch::autograd::ForwardADLevel::try_get_by_idx(0) == nullptr;
}

/// Runs steps up to the first one that gives a warning, and returns the next one.
std::size_t PreparedCalls::run_quietly(std::size_t at, std::size_t last, Way& way, TensorValues& values,
                                       const bool& has_warned) const {
    at::Tensor* const tensors = values.tensors_->data;
    const Memory memory{tensors, values.tensors_->numbers, values.tensors_->stack};
    for (; at < last && !has_warned; ++at) {
        values.tensors_->running = at;
        if (way.planned.is_active()) {
            way.planned.go_on(at, memory);
            continue;
        }
        const PreparedStep& step = steps_[at];
        if (way.without_autograd)
            make_calls(step.calls_without_autograd(), make_call_without_autograd, memory);
        else
            make_calls(step.calls, make_call, memory);
        if (way.without_autograd)
            for (const Alias& alias : step.aliases) tensors[alias.to] = tensors[alias.from];
        for (std::uint32_t value : step.released) tensors[value].reset();
    }
    return at;
}

std::optional<std::size_t> PreparedCalls::run(std::size_t first, std::size_t last, std::span<const std::uint32_t> read,
                                              TensorValues& values) const {
    KeptWarnings warnings;
    const bool without_autograd = needs_no_autograd(read, values);
    PlannedRow* const row = without_autograd ? steps_[first].row.get() : nullptr;
    try {
        Way way{without_autograd, {row, values.tensors_->data}};
        for (std::size_t at = first; at < last;) {
            {
                c10::WarningUtils::WarningHandlerGuard guard(&warnings);
                const WithoutLock without_lock;
                at = run_quietly(at, last, way, values, warnings.has_any);
            }
            if (warnings.has_any) warnings.give();
        }
        way.planned.end();
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
    return {keys.included_.raw_repr(), keys.excluded_.raw_repr(), c10::GradMode::is_enabled(),
            at::impl::PythonTorchFunctionTLS::stack_len() > 0 || c10::impl::TorchDispatchModeTLS::any_modes_set() ||
                at::hasCallbacks() || torch::autograd::AnomalyMode::is_enabled()};
}

}  // namespace stator::torch_room
