#include "torch/calls/row_plan.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/imported.h"
#include "torch/calls/memory_layout.h"
#include "torch/calls/out_forms.h"

namespace stator::torch_room {

namespace {

/// Larger tensors are allocated in each run, as uncompiled: what that takes does not count beside their kernels.
constexpr std::size_t kLargestResult = std::size_t{64} << 10U;
constexpr std::size_t kLargestOperand = std::size_t{1} << 20U;
/// What a block, which is there when nothing of it is in use too, may add to the memory that a row needs at its peak.
constexpr std::size_t kAllowedAbovePeak = std::size_t{2} << 10U;
/// Kept between runs, for each row.
constexpr std::size_t kLargestBlock = std::size_t{256} << 10U;

/// These share or change the storage of their arguments without being views.
constexpr std::array<std::string_view, 9> kUsesStorage = {
    "aten::set_",      "aten::resize_",  "aten::resize_as_",    "aten::set_data",  "aten::as_strided",
    "aten::as_strided_", "aten::record_stream", "aten::lift", "aten::requires_grad_"};

/// A dense tensor in memory, without anything that has to be resolved when it is read.
bool is_usual(const at::Tensor& tensor) {
    using c10::DispatchKey;
    if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != c10::kStrided || !tensor.has_storage())
        return false;
    const c10::DispatchKeySet usual({DispatchKey::CPU, DispatchKey::AutogradCPU, DispatchKey::ADInplaceOrView,
                                     DispatchKey::AutocastCPU});
    if ((tensor.key_set().raw_repr() & ~usual.raw_repr()) != 0) return false;
    return !c10::isComplexType(tensor.scalar_type()) && !c10::isQIntType(tensor.scalar_type());
}

/// Whether operators do nothing besides autograd before they reach their kernels.
bool is_usual_state() {
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    return (keys.included_.raw_repr() & ~c10::default_included_set.raw_repr()) == 0 &&
           (c10::default_excluded_set.raw_repr() & ~keys.excluded_.raw_repr()) == 0;
}

class NoWarnings : public c10::WarningHandler {
  public:
    void process(const c10::Warning&) override { has_any = true; }
    bool has_any = false;
};

std::size_t bytes_of(const at::Tensor& tensor) {
    return static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
}

std::size_t hash_of(const at::Tensor& tensor) {
    return std::hash<std::string_view>()({static_cast<const char*>(tensor.const_data_ptr()), bytes_of(tensor)});
}

/// A tensor on a part of the block.
at::Tensor tensor_in(const std::shared_ptr<c10::DataPtr>& block, std::size_t offset, const TensorLook& look,
                     std::size_t bytes) {
    auto* owner = new std::shared_ptr<c10::DataPtr>(block);
    auto drop = [](void* context) { delete static_cast<std::shared_ptr<c10::DataPtr>*>(context); };
    c10::DataPtr data(static_cast<char*>(block->get()) + offset, owner, drop, c10::Device(c10::kCPU));
    c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(data), c10::GetAllocator(c10::kCPU), true);
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(look.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(look.sizes, look.strides);
    return tensor;
}

}  // namespace

TensorLook TensorLook::of(const at::Tensor& tensor) {
    return {tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.scalar_type(),
            tensor.key_set().raw_repr()};
}

bool TensorLook::matches(const at::Tensor& tensor) const {
    return tensor.defined() && tensor.key_set().raw_repr() == keys && tensor.scalar_type() == dtype &&
           tensor.storage_offset() == offset &&
           tensor.sizes() == at::IntArrayRef(sizes) && tensor.strides() == at::IntArrayRef(strides);
}

bool is_view(const Call& call) {
    const c10::FunctionSchema& schema = call.operation.schema();
    // Is no view for autograd, because its operand is dropped.
    if (schema.name() == "aten::_unsafe_view") return true;
    return call.level == Level::BelowAutograd && !schema.is_mutable();
}

Py_ssize_t kernel_registrations() {
    static PyObject* const registered = imported("torch.library", "_impls");
    return PySet_GET_SIZE(registered);
}

RowObservation::RowObservation(const std::vector<RowEvent>& events, std::span<const std::uint32_t> first_event,
                               std::span<const PreparedStep> steps)
    : events_(events), first_event_(first_event), steps_(steps) {
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

const Call* RowObservation::out_of(const Call* call) const {
    const auto found = call == nullptr ? out_.end() : out_.find(call);
    return found == out_.end() ? nullptr : &found->second;
}

// ---- While the row runs
// ----------------------------------------------------------------------------------------------

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
    make_call_without_autograd(call, memory);
    note_results(number, call, memory.values);
    note_use(call);
    if (is_small(call, memory.values)) try_other_form(call, memory);
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

/// Another way to call the operator, if it computes the same bits: runs it over garbage, or anew.
void RowObservation::try_other_form(const Call& call, const Memory& memory) {
    const bool is_released =
        std::ranges::all_of(call.results, [&](std::uint32_t value) { return seen_[value].is_released; });
    std::optional<Call> form = out_form(call);
    if (!form) return;
    const bool writes = is_released;
    if (!writes) form = call;
    if (!cast_numbers(*form, memory.values) && !writes) return;
    std::vector<std::size_t> hashes;
    for (std::uint32_t value : call.results) {
        hashes.push_back(hash_of(memory.values[value]));
        if (writes)
            std::memset(memory.values[value].mutable_data_ptr(), 0xa5, bytes_of(memory.values[value]));
        else
            memory.values[value].reset();
    }
    bool is_same = true;
    // The program gets the warnings of the first call.
    NoWarnings warnings;
    c10::WarningUtils::WarningHandlerGuard guard(&warnings);
    try {
        make_call_without_autograd(*form, memory);
    } catch (const std::exception&) {
        memory.stack.clear();
        is_same = false;
    }
    for (std::size_t i = 0; i < call.results.size(); ++i) {
        const at::Tensor& tensor = memory.values[call.results[i]];
        is_same = is_same && at(call.results[i]).look.matches(tensor) && hash_of(tensor) == hashes[i];
    }
    if (!is_same) make_call_without_autograd(call, memory);
    if (!is_same || warnings.has_any) return;
    for (std::uint32_t value : call.results) at(value).is_plannable = writes;
    (writes ? out_ : cast_).emplace(&call, std::move(*form));
}

// ---- The plan
// ----------------------------------------------------------------------------------------------------

/// A root is in use until all that has its memory is released, and never planned if something stays.
void RowObservation::settle_lives() {
    // What a step releases at its end is not in use after its last call.
    auto last_use = [&](std::uint32_t death) {
        const bool is_end = death > 0 && events_[death].call == nullptr;
        return is_end && events_[death - 1].step == events_[death].step ? death - 1 : death;
    };
    for (Seen& seen : seen_)
        seen.last_use = seen.is_released ? last_use(seen.death) : static_cast<std::uint32_t>(events_.size());
    for (std::uint32_t value = 0; value < seen_.size(); ++value) {
        const Seen& seen = seen_[value];
        if (!seen.is_made || seen.root == kNoValue || seen.root == value) continue;
        Seen& root = seen_[seen.root];
        if (!seen.is_released) {
            root.is_plannable = false;
            root.last_use = static_cast<std::uint32_t>(events_.size());
        } else {
            root.last_use = std::max(root.last_use, last_use(seen.death));
        }
    }
    std::erase_if(out_, [&](const auto& entry) {
        const bool is_planned =
            std::ranges::all_of(entry.first->results, [&](std::uint32_t value) { return seen_[value].is_plannable; });
        if (!is_planned)
            for (std::uint32_t value : entry.first->results) seen_[value].is_plannable = false;
        return !is_planned;
    });
}

/// The number of the life whose place the result of an operator may take, as in place; -1 if none.
std::int32_t RowObservation::replaced_by(const Call& call, std::uint32_t event,
                                         const std::unordered_map<std::uint32_t, std::int32_t>& number_of_root) {
    if (!may_overwrite_operand(call)) return -1;
    const TensorLook& look = at(call.results[0]).look;
    std::uint32_t found = kNoValue;
    for_each_operand(call, [&](std::uint32_t value) {
        const std::uint32_t root = root_of(value);
        if (root == kNoValue || found != kNoValue || !number_of_root.contains(root)) return;
        if (at(root).last_use == event && value == root) found = root;
    });
    if (found == kNoValue) return -1;
    const TensorLook& old = at(found).look;
    bool is_alike = old.sizes == look.sizes && old.strides == look.strides && old.dtype == look.dtype;
    // Another view of the same memory would be read after it is written.
    for_each_operand(call, [&](std::uint32_t value) { is_alike &= value == found || root_of(value) != found; });
    return is_alike ? number_of_root.at(found) : -1;
}

/// The most that results have at one time, of those in a block or the others.
std::size_t RowObservation::peak(const std::vector<bool>& is_in_block) const {
    std::vector<std::ptrdiff_t> change(events_.size() + 2);
    for (std::uint32_t value = 0; value < seen_.size(); ++value) {
        const Seen& seen = seen_[value];
        if (!seen.is_made || seen.root != value || is_in_block[value]) continue;
        change[seen.birth] += static_cast<std::ptrdiff_t>(seen.bytes);
        change[seen.last_use + 1] -= static_cast<std::ptrdiff_t>(seen.bytes);
    }
    std::ptrdiff_t now = 0, most = 0;
    for (std::ptrdiff_t one : change) most = std::max(most, now += one);
    return static_cast<std::size_t>(most);
}

/// Makes the tensors.
void RowObservation::lay_out_block(RowPlan& plan) {
    const std::size_t peak_of_all = peak(std::vector<bool>(seen_.size()));
    for (std::size_t largest = kLargestResult; largest > 0; largest /= 2) {
        std::vector<Life> lives;
        std::vector<std::uint32_t> roots;
        std::unordered_map<std::uint32_t, std::int32_t> number_of_root;
        for (std::uint32_t event = 0; event < events_.size(); ++event) {
            const Call* const call = events_[event].call;
            if (out_of(call) == nullptr) continue;
            const bool is_small = std::ranges::all_of(
                call->results, [&](std::uint32_t value) { return seen_[value].bytes <= largest; });
            if (!is_small) continue;
            for (std::uint32_t value : call->results) {
                const std::int32_t replaces = replaced_by(*call, event, number_of_root);
                number_of_root[value] = static_cast<std::int32_t>(lives.size());
                lives.push_back({seen_[value].bytes, event, seen_[value].last_use, replaces});
                roots.push_back(value);
            }
        }
        if (roots.empty()) return;
        const Layout layout = lay_out(lives);
        if (layout.bytes > kLargestBlock) continue;
        std::vector<bool> is_in_block(seen_.size());
        for (std::uint32_t value : roots) is_in_block[value] = true;
        if (layout.bytes + peak(is_in_block) > peak_of_all + kAllowedAbovePeak) continue;
        auto block = std::make_shared<c10::DataPtr>(c10::GetCPUAllocator()->allocate(layout.bytes));
        plan.bytes = layout.bytes;
        for (std::size_t i = 0; i < roots.size(); ++i) {
            const Seen& seen = seen_[roots[i]];
            at::Tensor tensor = tensor_in(block, layout.offsets[i], seen.look, seen.bytes);
            if (!seen.look.matches(tensor)) continue;
            plan.kept.push_back({roots[i], std::move(tensor), seen.birth, seen.death});
            is_kept_[roots[i]] = true;
        }
        plan.results = plan.kept.size();
        return;
    }
}

/// Views of tensors of the plan, and second names of them.
void RowObservation::keep_views(RowPlan& plan) {
    std::vector<at::Tensor> values(seen_.size());
    for (const RowPlan::Kept& kept : plan.kept) values[kept.value] = kept.tensor;
    std::vector<c10::IValue> stack;
    const Memory memory{values.data(), {}, stack};
    auto keep = [&](std::uint32_t value, std::uint32_t event) {
        plan.kept.push_back({value, values[value], event, seen_[value].death});
        is_kept_[value] = true;
    };
    for (std::uint32_t i = 0; i < events_.size(); ++i) {
        const Call* const call = events_[i].call;
        if (call == nullptr) {
            for (const Alias& alias : steps_[events_[i].step].aliases) {
                if (alias.from >= seen_.size() || !is_kept_[alias.from]) continue;
                values[alias.to] = values[alias.from];
                keep(alias.to, i);
            }
            continue;
        }
        if (!is_view(*call)) continue;
        bool is_kept = !std::ranges::any_of(call->slots, &Slot::has_numbers) && keeps_nothing(*call);
        std::size_t operands = 0;
        for_each_operand(*call, [&](std::uint32_t value) {
            ++operands;
            is_kept = is_kept && value < is_kept_.size() && is_kept_[value];
        });
        if (!is_kept || operands == 0) continue;
        try {
            make_call_without_autograd(*call, memory);
        } catch (const std::exception&) {
            stack.clear();
            continue;
        }
        const bool is_alike = std::ranges::all_of(call->results, [&](std::uint32_t value) {
            return seen_[value].root != kNoValue && seen_[value].look.matches(values[value]) &&
                   values[value].is_alias_of(values[seen_[value].root]);
        });
        if (!is_alike) continue;
        for (std::uint32_t value : call->results) keep(value, i);
    }
}

void RowObservation::write_items(RowPlan& plan) {
    std::vector<bool> is_read(seen_.size());  // by calls of the plan
    for (const RowEvent& event : events_) {
        const bool is_of_plan = event.call != nullptr && (cast_.contains(event.call) ||
                                (out_.contains(event.call) && is_kept_[event.call->results[0]]));
        if (!is_of_plan) continue;
        for_each_operand(*event.call, [&](std::uint32_t value) { is_read[value] = !is_kept_[value]; });
    }
    std::vector<std::vector<std::uint32_t>> begun(events_.size()), ended(events_.size());  // moving views
    for (std::uint32_t number = 0; number < plan.moving.size(); ++number) {
        const RowPlan::MovingView& view = plan.moving[number];
        is_read[view.base] = true;
        if (!view.is_read) continue;
        begun[view.birth].push_back(number);
        ended[view.death].push_back(number);
    }
    for (std::uint32_t value = 0; value < seen_.size(); ++value)
        if (is_read[value] && !seen_[value].is_made) plan.expected.push_back({value, seen_[value].look});
    for (std::uint32_t i = 0; i < events_.size(); ++i) {
        const RowEvent& event = events_[i];
        if (first_event_[plan.first_item.size()] == i)
            plan.first_item.push_back(static_cast<std::uint32_t>(plan.items.size()));
        RowPlan::Item item{.event = i};
        const Call* const call = event.call;
        if (call == nullptr) {
            for (const Alias& alias : steps_[event.step].aliases) {
                if (is_kept_[alias.from]) continue;
                item.aliases.push_back(alias);
                if (is_read[alias.to]) item.expected.push_back({alias.to, seen_[alias.to].look});
            }
        } else if (call->results.empty() || !is_kept_[call->results[0]]) {
            item.call = call;
        } else if (const Call* const form = out_of(call)) {
            plan.calls.push_back(*form);
            item.call = &plan.calls.back();
            item.writes_kept = true;
        }
        if (const auto cast = cast_.find(item.call); cast != cast_.end()) {
            plan.calls.push_back(cast->second);
            item.call = &plan.calls.back();
        }
        if (call != nullptr && !item.writes_kept && item.call != nullptr)
            for (std::uint32_t value : call->results)
                if (is_read[value]) item.expected.push_back({value, seen_[value].look});
        for (std::uint32_t value : event.released)
            if (!is_kept_[value]) item.released.push_back(value);
        item.begun = std::move(begun[i]);
        item.ended = std::move(ended[i]);
        if (item.call != nullptr || !item.aliases.empty() || !item.released.empty() || !item.begun.empty() ||
            !item.ended.empty())
            plan.items.push_back(std::move(item));
    }
    plan.first_item.push_back(static_cast<std::uint32_t>(plan.items.size()));
}

std::unique_ptr<RowPlan> RowObservation::plan() {
    if (!is_usual_state()) return nullptr;
    settle_lives();
    is_kept_.assign(seen_.size(), false);
    auto plan = std::make_unique<RowPlan>();
    lay_out_block(*plan);
    keep_views(*plan);
    find_moving_views(*plan);
    if (plan->kept.empty() && plan->moving.empty() && cast_.empty()) return nullptr;
    write_items(*plan);
    plan->registrations = kernel_registrations();
    for (RowPlan::Kept& kept : plan->kept) {
        kept.tensor_uses = kept.tensor.use_count();
        kept.storage_uses = kept.tensor.storage().use_count();
    }
    return plan;
}

}  // namespace stator::torch_room
