#include "torch/recordings/device_recording.h"

#include <ATen/Context.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <set>

#include "base/boundary.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/errors.h"
#include "torch/global_state.h"
#include "torch/recordings/recorded_run.h"
#include "torch/recordings/recording_pool.h"

namespace stator::torch_room {

Row make_row(const PreparedCalls& calls, std::size_t first, std::size_t last) {
    Row row{.first = first, .last = last};
    std::set<std::uint32_t> inputs, made, released;
    for (std::size_t step = first; step < last; ++step) {
        row.calls += calls.call_count(step);
        for (std::size_t call = 0; call < calls.call_count(step); ++call) {
            const CallValues used = calls.values_of(step, call);
            for (std::uint32_t value : used.operands)
                if (!made.contains(value)) inputs.insert(value);
            made.insert(used.results.begin(), used.results.end());
            released.insert(used.released.begin(), used.released.end());
        }
        released.insert(calls.released_after(step).begin(), calls.released_after(step).end());
    }
    row.inputs.assign(inputs.begin(), inputs.end());
    row.released.assign(released.begin(), released.end());
    std::ranges::set_difference(made, released, std::back_inserter(row.results));
    return row;
}

namespace {

/// Settings that choose among kernels, besides those that every entry guards on.
std::int64_t kernel_settings() {
    const at::Context& context = at::globalContext();
    std::int64_t bits = 0;
    for (bool is_on : {context.benchmarkCuDNN(), context.deterministicCuDNN(), context.allowFP16AccumulationCuBLAS(),
                       context.deterministicFillUninitializedMemory(), context.allowFP16BF16ReductionMathSDP()})
        bits = bits << 1 | static_cast<std::int64_t>(is_on);
    for (at::Float32Op operation : {at::Float32Op::CONV, at::Float32Op::RNN, at::Float32Op::MATMUL})
        bits = bits << 4 | static_cast<std::int64_t>(context.float32Precision(at::Float32Backend::CUDA, operation));
    bits = bits << 4 | static_cast<std::int64_t>(context.linalgPreferredBackend());
    return bits << 1 | static_cast<std::int64_t>(c10::GradMode::is_enabled());
}

/// All copies with as few launches as possible.
void copy_all(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
    if (to.size() == 1)
        to[0].copy_(from[0], /*non_blocking=*/true);
    else if (!to.empty())
        at::_foreach_copy_(to, from, /*non_blocking=*/true);
}

constexpr std::uintptr_t kAlignment = 16;  // kernels of libraries are chosen by it

std::uintptr_t address_of(const at::Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
}

bool share_memory(const at::Tensor& one, const at::Tensor& other) {
    auto range = [](const at::Tensor& tensor) {
        const auto begin = reinterpret_cast<std::uintptr_t>(tensor.storage().data());
        return std::pair(begin, begin + tensor.storage().nbytes());
    };
    const auto [begin, end] = range(one);
    const auto [other_begin, other_end] = range(other);
    return begin < other_end && other_begin < end;
}

}  // namespace

void look_at(const Row& row, const TensorValues& values, SeenInputs* seen) {
    seen->layout.clear();
    seen->addresses.clear();
    seen->is_differentiated = is_in_dual_level();
    seen->layout.push_back(kernel_settings());
    const bool may_record = c10::GradMode::is_enabled();
    const at::Tensor* const tensors = values.tensors();
    for (std::uint32_t input : row.inputs) {
        const at::Tensor& tensor = tensors[input];
        seen->is_differentiated |= may_record && tensor.requires_grad();
        const c10::Device device = tensor.device();
        seen->layout.push_back(tensor.dim() | static_cast<std::int64_t>(tensor.scalar_type()) << 16 |
                               static_cast<std::int64_t>(device.type()) << 32 |
                               static_cast<std::int64_t>(device.index()) << 40);
        seen->layout.push_back(static_cast<std::int64_t>(tensor.key_set().raw_repr()));
        seen->layout.insert(seen->layout.end(), tensor.sizes().begin(), tensor.sizes().end());
        seen->layout.insert(seen->layout.end(), tensor.strides().begin(), tensor.strides().end());
        seen->addresses.push_back(address_of(tensor));
    }
}

/// Inputs of one dtype, which one launch copies.
struct CopyGroup {
    std::vector<std::size_t> places;
    std::vector<at::Tensor> buffers;
};

struct DeviceRecording::Parts {
    RecordedRun run;
    std::vector<CopyGroup> groups;
    std::vector<at::Tensor> kept;                               // the bytes of the roots
    std::vector<std::pair<std::size_t, std::uint32_t>> writes;  // the versions that a replay adds to inputs

    void take(RecordedRun made, std::vector<at::Tensor> inputs, const std::vector<bool>& is_copied) {
        run = std::move(made);
        for (const Root& root : run.roots) kept.push_back(bytes_of(root.storage));
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (!is_copied[i]) continue;
            auto group = std::ranges::find_if(
                groups, [&](const CopyGroup& each) { return each.buffers[0].dtype() == inputs[i].dtype(); });
            if (group == groups.end()) group = groups.insert(group, CopyGroup{});
            group->places.push_back(i);
            group->buffers.push_back(inputs[i]);
        }
    }
};

namespace {

/// What a recorder calls while the device records, with a list of the inputs, in which it has replaced those that are
/// copied by the memory for the copies. Returns the bytes of the results. A recorder for tests may call it again.
class Body {
  public:
    Body(const PreparedCalls& calls, const Row& row) : calls_(calls), row_(row) {}

    Ref<> call(Borrowed<> list) {
        std::vector<at::Tensor> inputs;
        for (std::size_t i = 0; i < row_.inputs.size(); ++i) {
            PyObject* const given = PyList_GetItem(list.get(), static_cast<Py_ssize_t>(i));
            if (given == nullptr) throw PythonError();
            inputs.push_back(THPVariable_Unpack(given));
        }
        RecordedRun run = run_recorded(calls_, row_, inputs);
        Ref<> results = checked(PyList_New(0));
        for (const Root& root : run.roots)
            checked(PyList_Append(results.get(), checked(THPVariable_Wrap(bytes_of(root.storage))).get()));
        if (is_first_) {
            first_run = std::move(run);
            first_inputs = std::move(inputs);
        }
        is_first_ = false;
        return results;
    }

    RecordedRun first_run;
    std::vector<at::Tensor> first_inputs;

  private:
    const PreparedCalls& calls_;
    const Row& row_;
    bool is_first_ = true;
};

constexpr const char* kBody = "stator.recorded_body";

PyObject* call_body(PyObject* capsule, PyObject* list) {
    return at_boundary([&] {
        auto* body = static_cast<Body*>(PyCapsule_GetPointer(capsule, kBody));
        return translating_errors([&] { return body->call(list); });
    });
}

PyMethodDef kCallBody = {"body", call_body, METH_O, nullptr};

/// A callable that owns the body.
Ref<> callable(std::unique_ptr<Body> body) {
    Ref<> capsule = checked(PyCapsule_New(
        body.get(), kBody, [](PyObject* capsule) { delete static_cast<Body*>(PyCapsule_GetPointer(capsule, kBody)); }));
    static_cast<void>(body.release());
    return checked(PyCFunction_New(&kCallBody, capsule.get()));
}

/// The exception that is set, in words, for a report; it is cleared. One that is not an `Exception` is thrown on.
std::string taken_message() {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw PythonError();
    const TakenError error = TakenError::take();
    Ref<> text = Ref<>::steal(PyObject_Str(error.exception().get()));
    if (!text) PyErr_Clear();
    std::string words = text ? std::string(utf8(text.get())) : std::string();
    words = words.substr(0, words.find('\n'));
    return std::string(Py_TYPE(error.exception().get())->tp_name) + ": " + words;
}

/// Notes warnings, and gives none: a replay gives none either.
class NotedWarnings : public c10::WarningHandler {
  public:
    void process(const c10::Warning&) override { any = true; }
    bool any = false;
};

std::uint32_t version_of(const at::Tensor& tensor) {
    return tensor.is_inference() ? 0 : tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

/// Recording calls raises the versions of tensors that they write to, though they write nothing yet.
class KeptVersions {
  public:
    explicit KeptVersions(const std::vector<at::Tensor>& inputs) : inputs_(inputs) {
        for (const at::Tensor& input : inputs) before_.push_back(version_of(input));
    }
    /// By how much each version has grown. Sets them back.
    std::vector<std::uint32_t> take_back() {
        std::vector<std::uint32_t> grown;
        for (std::size_t i = 0; i < inputs_.size(); ++i) grown.push_back(version_of(inputs_[i]) - before_[i]);
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            if (!inputs_[i].is_inference()) set_version(inputs_[i], before_[i]);
        return grown;
    }

  private:
    const std::vector<at::Tensor>& inputs_;
    std::vector<std::uint32_t> before_;
};

/// Whether each dimension steps over all that the dimensions with smaller strides reach: then no two elements share
/// memory.
bool has_distinct_elements(const at::Tensor& tensor) {
    std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // stride and size
    for (std::int64_t i = 0; i < tensor.dim(); ++i)
        if (tensor.size(i) != 1) steps.emplace_back(tensor.stride(i), tensor.size(i));
    std::ranges::sort(steps);
    std::int64_t reached = 0;
    for (auto [stride, size] : steps) {
        if (stride <= reached) return false;
        reached += stride * (size - 1);
    }
    return true;
}

/// A copy has the same strides, so that kernels are chosen as for the input itself.
bool can_be_copied(const at::Tensor& tensor) {
    return !tensor.is_conj() && !tensor.is_neg() && (tensor.numel() == 0 || has_distinct_elements(tensor));
}

/// The launch of a kernel takes as long as copying about this many bytes.
constexpr std::int64_t kBytesPerCall = std::int64_t{1} << 20;

}  // namespace

DeviceRecording::DeviceRecording(const PreparedCalls& calls, const Row& row, RecordingPool& pool)
    : calls_(calls), row_(row), pool_(pool), parts_(std::make_unique<Parts>()) {}

DeviceRecording::~DeviceRecording() {
    pool_.bytes_ -= bytes_;
    if (replay_) --pool_.recordings_;
}

DeviceRecording::Made DeviceRecording::make(const PreparedCalls& calls, const Row& row, const TensorValues& values,
                                            const std::vector<bool>& is_copied, RecordingPool& pool) {
    RecordingPool::Busy busy(pool);
    for (std::size_t i = 0; i < row.inputs.size(); ++i)
        if (is_copied[i] && !can_be_copied(values.tensors()[row.inputs[i]]))
            return NotRecorded{"an input that changes its address can't be copied exactly"};
    std::unique_ptr<DeviceRecording> recording(new DeviceRecording(calls, row, pool));
    recording->is_copied_ = is_copied;
    if (std::optional<NotRecorded> failed = recording->record(values)) return std::move(*failed);
    if (std::optional<NotRecorded> refused = recording->refusal(values)) return std::move(*refused);
    return recording;
}

/// Has the device record the calls.
std::optional<NotRecorded> DeviceRecording::record(const TensorValues& values) {
    std::vector<at::Tensor> inputs;
    Ref<> list = checked(PyList_New(0)), copied = checked(PyList_New(0));
    for (std::size_t i = 0; i < row_.inputs.size(); ++i) {
        inputs.push_back(values.tensors()[row_.inputs[i]]);
        checked(PyList_Append(list.get(), values.object(row_.inputs[i]).get()));
        if (is_copied_[i]) checked(PyList_Append(copied.get(), checked(PyLong_FromSize_t(i)).get()));
    }
    auto owned = std::make_unique<Body>(calls_, row_);
    Body* const body = owned.get();
    Ref<> function = callable(std::move(owned));
    // PyTorch frees a pool with its last recording, and then refuses to record into it.
    if (pool_.recordings_ == 0 || pool_.overwrites_results_)
        pool_.handle_ = checked(PyObject_CallMethod(pool_.recorder_.get(), "new_pool", nullptr));
    KeptVersions versions(inputs);
    NotedWarnings warnings;
    Ref<> answer;
    {
        c10::WarningUtils::WarningHandlerGuard guard(&warnings);
        answer = Ref<>::steal(PyObject_CallMethod(pool_.recorder_.get(), "record", "OOOiO", function.get(), list.get(),
                                                  copied.get(), pool_.device_ & 0xff, pool_.handle_.get()));
    }
    const std::vector<std::uint32_t> grown = versions.take_back();
    if (!answer) return NotRecorded{taken_message()};
    if (answer.get() == Py_None) return NotRecorded{"another thread was recording", false};
    PyObject* replay = nullptr;
    long long bytes = 0;
    if (PyArg_ParseTuple(answer.get(), "OL", &replay, &bytes) == 0) throw PythonError();
    replay_ = Ref<>::share(replay);
    ++pool_.recordings_;
    bytes_ = bytes;
    pool_.bytes_ += bytes;
    if (warnings.any) return NotRecorded{"an operator gives a warning"};
    parts_->take(std::move(body->first_run), std::move(body->first_inputs), is_copied_);
    is_written_ = parts_->run.is_written;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (grown[i] == 0) continue;
        is_written_[i] = true;
        parts_->writes.emplace_back(i, grown[i]);
    }
    return std::nullopt;
}

/// Why a recording that was made is not used.
std::optional<NotRecorded> DeviceRecording::refusal(const TensorValues& values) const {
    if (!parts_->run.refusal.empty()) return NotRecorded{parts_->run.refusal};
    std::int64_t copied = 0;
    for (std::size_t i = 0; i < is_copied_.size(); ++i) {
        if (!is_copied_[i]) continue;
        if (is_written_[i]) return NotRecorded{"it writes to an input that changes its address", false, is_written_};
        copied += static_cast<std::int64_t>(values.tensors()[row_.inputs[i]].nbytes());
    }
    if (!pool_.overwrites_results_)
        for (const Root& root : parts_->run.roots) copied += static_cast<std::int64_t>(root.storage.nbytes());
    if (copied > kBytesPerCall * static_cast<std::int64_t>(row_.calls))
        return NotRecorded{"copying its inputs and results would take longer than launching its kernels"};
    return std::nullopt;
}

bool DeviceRecording::is_hindered(const TensorValues& values) const {
    const at::Tensor* const tensors = values.tensors();
    for (const CopyGroup& group : parts_->groups) {
        for (std::size_t place : group.places) {
            const at::Tensor& copied = tensors[row_.inputs[place]];
            if (address_of(copied) % kAlignment != 0) return true;
            for (std::size_t other = 0; other < is_written_.size(); ++other)
                if (is_written_[other] && share_memory(copied, tensors[row_.inputs[other]])) return true;
        }
    }
    return false;
}

void DeviceRecording::replay(TensorValues& values) const {
    RecordingPool::Busy busy(pool_);
    const c10::Device device = unpacked_device(pool_.device_);
    translating_errors([&] {
        const c10::OptionalDeviceGuard guard(device.is_cpu() ? std::nullopt : std::optional(device));
        pool_.streams_->enter(device);
        copy_inputs(values);
        checked(PyObject_CallNoArgs(replay_.get()));
        give_results(values);
        pool_.streams_->leave(device);
        raise_versions(values);
        for (std::uint32_t value : row_.released) values.release(value);
    });
}

void DeviceRecording::copy_inputs(const TensorValues& values) const {
    for (const CopyGroup& group : parts_->groups) {
        std::vector<at::Tensor> from;
        for (std::size_t place : group.places) from.push_back(values.tensors()[row_.inputs[place]]);
        copy_all(group.buffers, from);
    }
}

void DeviceRecording::give_results(TensorValues& values) const {
    at::Tensor* const tensors = values.tensors();
    std::vector<at::Tensor> given;
    if (pool_.overwrites_results_) {
        given = parts_->kept;
    } else {
        for (const at::Tensor& bytes : parts_->kept) given.push_back(at::empty(bytes.sizes(), bytes.options()));
        copy_all(given, parts_->kept);
    }
    for (const ResultAct& act : parts_->run.acts) {
        if (act.kind == ResultAct::Kind::Root)
            tensors[act.value] = parts_->run.roots[act.from].on(given[act.from].storage());
        else if (act.kind == ResultAct::Kind::Same)
            tensors[act.value] = tensors[act.from];
        else
            calls_.run_call(act.step, act.call, values);
    }
    for (std::uint32_t value : parts_->run.temporaries) values.release(value);
}

void DeviceRecording::raise_versions(const TensorValues& values) const {
    // Views of one tensor share a version: all are read before any is set.
    std::vector<std::pair<const at::Tensor*, std::uint32_t>> raised;
    for (const auto& [place, count] : parts_->writes) {
        const at::Tensor& tensor = values.tensors()[row_.inputs[place]];
        if (!tensor.is_inference()) raised.emplace_back(&tensor, version_of(tensor) + count);
    }
    for (const auto& [tensor, version] : raised) set_version(*tensor, version);
}

}  // namespace stator::torch_room
