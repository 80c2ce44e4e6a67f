/// The plan that is made of an observed run.
#include "torch/calls/row_plan.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "base/imported.h"
#include "torch/calls/memory_layout.h"
#include "torch/calls/out_forms.h"

namespace stator::torch_room {

namespace {

/// What a block, which is there when nothing of it is in use too, may add to the memory that a row needs at its peak.
constexpr std::size_t kAllowedAbovePeak = std::size_t{2} << 10U;
/// Kept between runs, for each row.
constexpr std::size_t kLargestBlock = std::size_t{256} << 10U;

/// Whether operators do nothing besides autograd before they reach their kernels.
bool is_usual_state() {
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    return (keys.included_.raw_repr() & ~c10::default_included_set.raw_repr()) == 0 &&
           (c10::default_excluded_set.raw_repr() & ~keys.excluded_.raw_repr()) == 0;
}

/// A tensor on a part of the block.
at::Tensor tensor_in(const std::shared_ptr<MemoryBlock>& block, std::size_t offset, const TensorLook& look,
                     std::size_t bytes) {
    auto* owner = new std::shared_ptr<MemoryBlock>(block);
    auto drop = [](void* context) { delete static_cast<std::shared_ptr<MemoryBlock>*>(context); };
    c10::DataPtr data(static_cast<char*>(block->data.get()) + offset, owner, drop, c10::Device(c10::kCPU));
    c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(data), c10::GetAllocator(c10::kCPU), true);
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(look.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(look.sizes, look.strides);
    return tensor;
}

}  // namespace

Py_ssize_t kernel_registrations() {
    static PyObject* const registered = imported("torch.library", "_impls");
    return PySet_GET_SIZE(registered);
}

const Call* RowObservation::out_of(const Call* call) const {
    const auto found = call == nullptr ? out_.end() : out_.find(call);
    return found == out_.end() ? nullptr : &found->second;
}

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
void RowObservation::lay_out_block(RowPlan& plan, SharedMemory& shared) {
    const std::size_t peak_of_all = peak(std::vector<bool>(seen_.size()));
    for (std::size_t largest = kLargestBlock; largest > 0; largest /= 2) {
        std::vector<Life> lives;
        std::vector<std::uint32_t> roots;
        std::unordered_map<std::uint32_t, std::int32_t> number_of_root;
        for (std::uint32_t event = 0; event < events_.size(); ++event) {
            const Call* const call = events_[event].call;
            if (out_of(call) == nullptr) continue;
            const bool is_small =
                std::ranges::all_of(call->results, [&](std::uint32_t value) { return seen_[value].bytes <= largest; });
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
        if (shared.block == nullptr || shared.block->bytes < layout.bytes)
            shared.block = std::make_shared<MemoryBlock>(
                MemoryBlock{c10::GetCPUAllocator()->allocate(layout.bytes), layout.bytes});
        plan.block = shared.block;
        for (std::size_t i = 0; i < roots.size(); ++i) {
            const Seen& seen = seen_[roots[i]];
            at::Tensor tensor = tensor_in(plan.block, layout.offsets[i], seen.look, seen.bytes);
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
        const bool is_of_plan =
            event.call != nullptr &&
            (cast_.contains(event.call) || (out_.contains(event.call) && is_kept_[event.call->results[0]]));
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

std::unique_ptr<RowPlan> RowObservation::plan(SharedMemory& shared) {
    if (!is_usual_state()) return nullptr;
    settle_lives();
    is_kept_.assign(seen_.size(), false);
    auto plan = std::make_unique<RowPlan>();
    lay_out_block(*plan, shared);
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
