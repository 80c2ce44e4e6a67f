/// The plan that is made of an observed run.
#include "torch/calls/row_plan.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "base/imported.h"
#include "torch/calls/out_forms.h"

namespace stator::torch_room {

namespace {

/// Whether operators do nothing besides autograd before they reach their kernels.
bool is_usual_state() {
    const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    return (keys.included_.raw_repr() & ~c10::default_included_set.raw_repr()) == 0 &&
           (c10::default_excluded_set.raw_repr() & ~keys.excluded_.raw_repr()) == 0;
}

}  // namespace

Py_ssize_t kernel_registrations() {
    static PyObject* const registered = imported("torch.library", "_impls");
    return PySet_GET_SIZE(registered);
}

void RowPlan::Kept::note_uses() {
    tensor_uses = tensor.use_count();
    storage_uses = tensor.storage().use_count();
}

bool RowPlan::Kept::has_other_uses() const {
    return tensor.use_count() != tensor_uses || tensor.storage().use_count() != storage_uses;
}

/// Views of tensors of the plan, and second names of them.
void RowObservation::keep_views(RowPlan& plan) {
    std::vector<at::Tensor> values(seen_.size());
    for (const RowPlan::Kept& kept : plan.kept) values[kept.value] = kept.tensor;
    std::vector<c10::IValue> stack;
    const Memory memory{values.data(), {}, stack};
    std::vector<std::uint32_t> chunk_of(seen_.size());
    for (const RowPlan::Kept& kept : plan.kept) chunk_of[kept.value] = kept.chunk;
    auto keep_as = [&](std::uint32_t value, std::uint32_t event, std::uint32_t chunk) {
        chunk_of[value] = chunk;
        keep(plan, {value, values[value], event, seen_[value].death, chunk});
    };
    for (std::uint32_t i = 0; i < events_.size(); ++i) {
        const Call* const call = events_[i].call;
        if (call == nullptr) {
            for (const Alias& alias : steps_[events_[i].step].aliases) {
                if (alias.from >= seen_.size() || !is_kept_[alias.from]) continue;
                values[alias.to] = values[alias.from];
                keep_as(alias.to, i, chunk_of[alias.from]);
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
        for (std::uint32_t value : call->results) keep_as(value, i, chunk_of[seen_[value].root]);
    }
}

/// The values that calls of the plan read, and that no plan made.
std::vector<bool> RowObservation::read_by_plan(const RowPlan& plan) const {
    std::vector<bool> is_read(seen_.size());
    for (const RowEvent& event : events_) {
        const bool is_of_plan =
            event.call != nullptr &&
            (cast_.contains(event.call) || (out_.contains(event.call) && is_kept_[event.call->results[0]]));
        if (!is_of_plan) continue;
        for_each_operand(*event.call, [&](std::uint32_t value) { is_read[value] = !is_kept_[value]; });
    }
    for (const RowPlan::MovingView& view : plan.moving) is_read[view.base] = true;
    return is_read;
}

/// What the plan does in the place of an event, but for the memory and the views that begin or end there.
RowPlan::Item RowObservation::item_of(std::uint32_t number, const std::vector<bool>& is_read, RowPlan& plan) const {
    const RowEvent& event = events_[number];
    const Call* const call = event.call;
    RowPlan::Item item{.event = number};
    auto expect = [&](std::uint32_t value) {
        if (is_read[value]) item.expected.push_back({value, seen_[value].look});
    };
    if (call == nullptr) {
        for (const Alias& alias : steps_[event.step].aliases) {
            if (is_kept_[alias.from]) continue;
            item.aliases.push_back(alias);
            expect(alias.to);
        }
    } else if (call->results.empty() || !is_kept_[call->results[0]]) {
        const auto cast = cast_.find(call);
        item.call = cast == cast_.end() ? call : &plan.calls.emplace_back(cast->second);
        for (std::uint32_t value : call->results) expect(value);
    } else if (const Call* const form = out_of(call)) {
        item.call = &plan.calls.emplace_back(*form);
        item.writes_kept = true;
    }
    for (std::uint32_t value : event.released)
        if (!is_kept_[value]) item.released.push_back(value);
    return item;
}

void RowObservation::write_items(RowPlan& plan) {
    const std::vector<bool> is_read = read_by_plan(plan);
    for (std::uint32_t value = 0; value < seen_.size(); ++value)
        if (is_read[value] && !seen_[value].is_made) plan.expected.push_back({value, seen_[value].look});
    std::vector<RowPlan::Item> items;
    for (std::uint32_t i = 0; i < events_.size(); ++i) items.push_back(item_of(i, is_read, plan));
    for (std::uint32_t number = 0; number < plan.chunks.size(); ++number) {
        if (plan.chunks[number].kept.empty()) continue;
        items[plan.chunks[number].first].taken.push_back(number);
        items[plan.chunks[number].last].given_back.push_back(number);
    }
    for (std::uint32_t number = 0; number < plan.moving.size(); ++number) {
        if (!plan.moving[number].is_read) continue;
        items[plan.moving[number].birth].begun.push_back(number);
        items[plan.moving[number].death].ended.push_back(number);
    }
    for (std::uint32_t i = 0; i < events_.size(); ++i) {
        if (first_event_[plan.first_item.size()] == i)
            plan.first_item.push_back(static_cast<std::uint32_t>(plan.items.size()));
        if (!items[i].is_empty()) plan.items.push_back(std::move(items[i]));
    }
    plan.first_item.push_back(static_cast<std::uint32_t>(plan.items.size()));
}

std::unique_ptr<RowPlan> RowObservation::plan() {
    if (!is_usual_state()) return nullptr;
    settle_lives();
    is_kept_.assign(seen_.size(), false);
    auto plan = std::make_unique<RowPlan>();
    keep_results(*plan);
    keep_views(*plan);
    find_moving_views(*plan);
    if (plan->kept.empty() && plan->moving.empty() && cast_.empty()) return nullptr;
    write_items(*plan);
    plan->registrations = kernel_registrations();
    for (RowPlan::Kept& kept : plan->kept) kept.note_uses();
    return plan;
}

}  // namespace stator::torch_room
