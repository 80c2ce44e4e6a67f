/// What a row does in the run that is observed.
#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "torch/calls/out_forms.h"
#include "torch/calls/row_plan.h"

namespace stator::torch_room {

namespace {

/// Larger tensors are allocated in each run, as uncompiled: what that takes does not count beside their kernels.
constexpr std::size_t kLargestResult = std::size_t{64} << 10U;
constexpr std::size_t kLargestOperand = std::size_t{1} << 20U;
/// These share or change the storage of their arguments without being views.
constexpr std::array<std::string_view, 9> kUsesStorage = {
    "aten::set_",        "aten::resize_",       "aten::resize_as_", "aten::set_data",      "aten::as_strided",
    "aten::as_strided_", "aten::record_stream", "aten::lift",       "aten::requires_grad_"};

/// A dense tensor in memory, without anything that has to be resolved when it is read.
bool is_usual(const at::Tensor& tensor) {
    using c10::DispatchKey;
    if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != c10::kStrided || !tensor.has_storage())
        return false;
    const c10::DispatchKeySet usual(
        {DispatchKey::CPU, DispatchKey::AutogradCPU, DispatchKey::ADInplaceOrView, DispatchKey::AutocastCPU});
    if ((tensor.key_set().raw_repr() & ~usual.raw_repr()) != 0) return false;
    return !c10::isComplexType(tensor.scalar_type()) && !c10::isQIntType(tensor.scalar_type());
}

class NoWarnings : public c10::WarningHandler {
  public:
    void process(const c10::Warning&) override { has_any = true; }
    bool has_any = false;
};

/// What is allocated while it is there. Whoever watched before is told too.
class MemoryWatch : public c10::MemoryReportingInfoBase {
  public:
    MemoryWatch()
        : outer_(static_cast<c10::MemoryReportingInfoBase*>(
              c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE))) {}

    void reportMemoryUsage(void* address, std::int64_t size, std::size_t allocated, std::size_t reserved,
                           c10::Device device) override {
        now_ += size;
        most_ = std::max(most_, now_);
        if (outer_ != nullptr && outer_->memoryProfilingEnabled())
            outer_->reportMemoryUsage(address, size, allocated, reserved, device);
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::size_t most() const { return static_cast<std::size_t>(most_); }

  private:
    c10::MemoryReportingInfoBase* outer_;
    std::int64_t now_ = 0, most_ = 0;
};

/// The most bytes that the call has allocated at a time.
std::size_t make_watched_call(const Call& call, const Memory& memory) {
    auto watch = std::make_shared<MemoryWatch>();
    c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, watch);
    make_call_without_autograd(call, memory);
    return watch->most();
}

std::size_t bytes_of(const at::Tensor& tensor) {
    return static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
}

std::size_t hash_of(const at::Tensor& tensor) {
    return std::hash<std::string_view>()({static_cast<const char*>(tensor.const_data_ptr()), bytes_of(tensor)});
}

}  // namespace

TensorLook TensorLook::of(const at::Tensor& tensor) {
    return {tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.scalar_type(),
            tensor.key_set().raw_repr()};
}

bool TensorLook::matches(const at::Tensor& tensor) const {
    return tensor.defined() && tensor.key_set().raw_repr() == keys && tensor.scalar_type() == dtype &&
           tensor.storage_offset() == offset && tensor.sizes() == at::IntArrayRef(sizes) &&
           tensor.strides() == at::IntArrayRef(strides);
}

bool is_view(const Call& call) {
    const c10::FunctionSchema& schema = call.operation.schema();
    // Is no view for autograd, because its operand is dropped.
    if (schema.name() == "aten::_unsafe_view") return true;
    return call.level == Level::BelowAutograd && !schema.is_mutable();
}

RowObservation::RowObservation(const std::vector<RowEvent>& events, std::span<const std::uint32_t> first_event,
                               std::span<const PreparedStep> steps)
    : events_(events), first_event_(first_event), steps_(steps), taken_meanwhile_(events.size()) {
    for (std::uint32_t i = 0; i < events.size(); ++i)
        for (std::uint32_t value : events[i].released) {
            at(value).death = i;
            at(value).is_released = true;
        }
}

RowObservation::Seen& RowObservation::at(std::uint32_t value) {
    if (seen_.size() <= value) seen_.resize(value + 1);
    return seen_[value];
}

std::uint32_t RowObservation::root_of(std::uint32_t value) {
    return at(value).is_made ? at(value).root : kNoValue;
}

void RowObservation::run(std::uint32_t number, const Memory& memory) {
    const RowEvent& event = events_[number];
    if (event.call != nullptr) {
        observe_call(number, *event.call, memory);
    } else {
        for (const Alias& alias : steps_[event.step].aliases) {
            memory.values[alias.to] = memory.values[alias.from];
            const Seen from = at(alias.from);
            Seen& to = at(alias.to);
            if (!from.is_made) continue;
            to.is_made = true;
            to.root = from.root;
            to.look = from.look;
            to.birth = number;
        }
    }
    for (std::uint32_t value : event.released) memory.values[value].reset();
}

void RowObservation::observe_call(std::uint32_t number, const Call& call, const Memory& memory) {
    // What comes from outside looks like this from the beginning on.
    for_each_operand(call, [&](std::uint32_t value) {
        Seen& seen = at(value);
        const at::Tensor& tensor = memory.values[value];
        if (seen.is_made || seen.look.keys != 0 || !tensor.defined() || !tensor.has_storage()) return;
        seen.look = TensorLook::of(tensor);
        seen.is_usual = is_usual(tensor);
    });
    const std::size_t most = make_watched_call(call, memory);
    note_results(number, call, memory.values);
    std::size_t made = 0;
    for (std::uint32_t value : call.results)
        if (at(value).root == value) made += at(value).bytes;
    taken_meanwhile_[number] = std::max(most, made) - made;
    note_use(call);
    if (is_small(call, memory.values)) try_other_form(number, call, memory);
}

void RowObservation::note_results(std::uint32_t number, const Call& call, const at::Tensor* values) {
    for (std::size_t i = 0; i < call.results.size(); ++i) {
        const std::uint32_t value = call.results[i];
        const at::Tensor& tensor = values[value];
        Seen& seen = at(value);
        seen.is_made = true;
        seen.birth = number;
        if (!tensor.defined() || !tensor.has_storage()) continue;
        seen.look = TensorLook::of(tensor);
        seen.is_usual = is_usual(tensor);
        seen.bytes = tensor.storage().nbytes();
        bool has_memory_of_other = false;
        std::uint32_t root = value;
        auto compare = [&](std::uint32_t other) {
            const at::Tensor& one = values[other];
            if (has_memory_of_other || !one.defined() || !one.has_storage() || !one.is_alias_of(tensor)) return;
            has_memory_of_other = true;
            root = root_of(other);
        };
        for_each_operand(call, compare);
        for (std::size_t j = 0; j < i; ++j) compare(call.results[j]);
        at(value).root = root;
    }
}

void RowObservation::disqualify(const Call& call) {
    for_each_operand(call, [&](std::uint32_t value) {
        if (root_of(value) != kNoValue) at(root_of(value)).is_plannable = false;
    });
}

bool RowObservation::is_pytorchs(const c10::OperatorHandle& operation) {
    const c10::OperatorName& name = operation.operator_name();
    auto [found, is_new] = is_pytorchs_.try_emplace(name.name + "." + name.overload_name, false);
    if (is_new) found->second = has_kernel_of_pytorch(operation);
    return found->second;
}

/// Whether the operator has no reference to its arguments after the call, but for results that are views of them.
bool RowObservation::keeps_nothing(const Call& call) {
    const std::string& name = call.operation.schema().name();
    if (std::ranges::find(kUsesStorage, name) != kUsesStorage.end() || !is_pytorchs(call.operation)) return false;
    return call.level != Level::Top || name == "aten::scaled_dot_product_attention";
}

void RowObservation::note_use(const Call& call) {
    if (!keeps_nothing(call)) return disqualify(call);
    const bool is_view_or_write = call.level == Level::BelowAutograd || is_view(call);
    if (!is_view_or_write) {
        const bool returns_memory = std::ranges::any_of(
            call.results, [&](std::uint32_t value) { return at(value).root != value && at(value).root != kNoValue; });
        if (returns_memory) return disqualify(call);
    }
    const std::vector<bool> is_written = written_arguments(call.operation.schema());
    for (std::size_t i = 0; i < call.slots.size(); ++i) {
        if (!is_written[i]) continue;
        call.slots[i].for_each_tensor([&](std::uint32_t value) {
            if (root_of(value) != kNoValue) at(root_of(value)).is_plannable = false;
        });
    }
}

/// Whether the call does nothing but to compute new tensors of its operands, and takes so little time that it counts in
/// which way it is called.
bool RowObservation::is_small(const Call& call, const at::Tensor* values) const {
    if (call.level != Level::BelowViewTracking || call.is_below_autograd || call.results.empty()) return false;
    if (std::ranges::any_of(call.slots, &Slot::has_numbers)) return false;
    bool is_possible = true;
    for_each_operand(call, [&](std::uint32_t value) {
        is_possible &= is_usual(values[value]) && bytes_of(values[value]) <= kLargestOperand;
    });
    for (std::uint32_t value : call.results) {
        const at::Tensor& tensor = values[value];
        is_possible = is_possible && seen_[value].root == value && is_usual(tensor) && tensor.numel() > 0 &&
                      tensor.storage_offset() == 0 && !tensor.requires_grad() &&
                      tensor.is_non_overlapping_and_dense() && bytes_of(tensor) <= kLargestResult &&
                      tensor.storage().nbytes() == bytes_of(tensor) && tensor.use_count() == 1 &&
                      tensor.storage().use_count() == 1;
    }
    return is_possible;
}

/// Another way to call the operator: writes to tensors that exist, if the results are released inside of the row, and
/// has its numbers in the dtype of the tensors.
std::optional<RowObservation::OtherForm> RowObservation::other_form(const Call& call, const at::Tensor* values) const {
    std::optional<Call> form = out_form(call);
    if (!form) return std::nullopt;
    const bool writes =
        std::ranges::all_of(call.results, [&](std::uint32_t value) { return seen_[value].is_released; });
    if (!writes) form = call;
    if (!cast_numbers(*form, values) && !writes) return std::nullopt;
    return OtherForm{std::move(*form), writes};
}

/// Calls the other form over garbage, or anew. Whether it computes the same bits and takes no more memory for itself.
bool RowObservation::computes_the_same(const OtherForm& form, std::uint32_t event, const Memory& memory) {
    std::vector<std::size_t> hashes;
    for (std::uint32_t value : form.call.results) {
        at::Tensor& tensor = memory.values[value];
        hashes.push_back(hash_of(tensor));
        if (form.writes)
            std::memset(tensor.mutable_data_ptr(), 0xa5, bytes_of(tensor));
        else
            tensor.reset();
    }
    try {
        const std::size_t most = make_watched_call(form.call, memory);
        if (form.writes && most > taken_meanwhile_[event]) return false;
    } catch (const std::exception&) {
        memory.stack.clear();
        return false;
    }
    for (std::size_t i = 0; i < hashes.size(); ++i) {
        const std::uint32_t value = form.call.results[i];
        if (!at(value).look.matches(memory.values[value]) || hash_of(memory.values[value]) != hashes[i]) return false;
    }
    return true;
}

void RowObservation::try_other_form(std::uint32_t event, const Call& call, const Memory& memory) {
    std::optional<OtherForm> form = other_form(call, memory.values);
    if (!form) return;
    // The program gets the warnings of the first call.
    NoWarnings warnings;
    c10::WarningUtils::WarningHandlerGuard guard(&warnings);
    if (!computes_the_same(*form, event, memory)) return make_call_without_autograd(call, memory);
    if (warnings.has_any) return;
    for (std::uint32_t value : call.results) at(value).is_plannable = form->writes;
    (form->writes ? out_ : cast_).emplace(&call, std::move(form->call));
}

}  // namespace stator::torch_room
