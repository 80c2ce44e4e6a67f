/// Views of tensors that come from outside of a row, or that an operator allocates in each run: sizes, strides and
/// offset follow from those of their base, so the tensor is made once, and only gets the memory of the base in each
/// run.
#include <ATen/core/enum_tag.h>

#include <algorithm>

#include "torch/calls/row_plan.h"

namespace stator::torch_room {

namespace {

bool changes_sizes_in_place(const RowEvent& event) {
    return event.call != nullptr && event.call->operation.hasTag(at::Tag::inplace_view);
}

/// The memory comes with each run.
at::Tensor view_of_nothing(const TensorLook& look, const c10::Storage& nothing) {
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(nothing), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(look.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(look.sizes, look.strides, look.offset);
    return tensor;
}

}  // namespace

/// Whether the results may be moving views, as far as the call itself is concerned.
bool RowObservation::may_move(const Call& call) {
    if (!is_view(call) || call.is_below_autograd || call.results.empty() || is_kept_[call.results[0]]) return false;
    if (std::ranges::any_of(call.slots, &Slot::has_numbers) || !keeps_nothing(call)) return false;
    std::uint32_t base = kNoValue;
    bool has_one = true;
    for_each_operand(call, [&](std::uint32_t value) {
        has_one &= base == kNoValue || base == value;
        base = value;
    });
    if (base == kNoValue || !has_one || is_kept_[base] || !seen_[base].is_usual) return false;
    const std::uint32_t last_base = base_of_[base] == kNoValue ? base : base_of_[base];
    const Seen& owner = seen_[last_base];
    const bool is_possible = std::ranges::all_of(call.results, [&](std::uint32_t value) {
        const Seen& seen = seen_[value];
        return seen.is_usual && seen.look.keys == owner.look.keys && seen.is_released && seen.root != value &&
               seen.root == root_of(base) && (!owner.is_released || owner.death >= seen.death);
    });
    if (is_possible)
        for (std::uint32_t value : call.results) base_of_[value] = last_base;
    return is_possible;
}

/// Whether the call uses a moving view so that nothing is left of it afterwards.
bool RowObservation::stays(const Call& call, std::uint32_t value) {
    if (!keeps_nothing(call)) return true;
    const std::vector<bool> is_written = written_arguments(call.operation.schema());
    for (std::size_t i = 0; i < call.slots.size(); ++i) {
        bool is_it = false;
        call.slots[i].for_each_tensor([&](std::uint32_t one) { is_it |= one == value; });
        if (is_it && is_written[i]) return true;
    }
    return std::ranges::any_of(call.results, [&](std::uint32_t result) { return seen_[result].root != result; });
}

/// By event: whether its results may be moving views. `is_read` gets the views that are read by other calls.
std::vector<bool> RowObservation::moving_calls(std::vector<bool>* is_read) {
    std::vector<bool> moves(events_.size());
    for (std::size_t i = 0; i < events_.size(); ++i)
        moves[i] = events_[i].call != nullptr && may_move(*events_[i].call);
    // Uses come after the view, so they are decided first.
    for (std::size_t i = events_.size(); i-- > 0;) {
        const RowEvent& event = events_[i];
        if (event.call == nullptr) {
            for (const Alias& alias : steps_[event.step].aliases) base_of_[alias.from] = kNoValue;
            continue;
        }
        if (moves[i])
            moves[i] = std::ranges::all_of(event.call->results,
                                           [&](std::uint32_t value) { return base_of_[value] != kNoValue; });
        if (moves[i]) continue;
        for (std::uint32_t value : event.call->results) base_of_[value] = kNoValue;
        for_each_operand(*event.call, [&](std::uint32_t value) {
            if (base_of_[value] == kNoValue) return;
            if (stays(*event.call, value)) base_of_[value] = kNoValue;
            (*is_read)[value] = true;
        });
    }
    return moves;
}

/// Whether the operand is the base itself, or a view that moves with it: a view of one that does not is made of that.
bool RowObservation::moves_with_base(const Call& call) const {
    const std::uint32_t base = base_of_[call.results[0]];
    bool moves = true;
    for_each_operand(call, [&](std::uint32_t value) { moves &= value == base || is_kept_[value]; });
    return moves;
}

void RowObservation::find_moving_views(RowPlan& plan) {
    base_of_.assign(seen_.size(), kNoValue);
    if (std::ranges::any_of(events_, changes_sizes_in_place)) return;
    std::vector<bool> is_read(seen_.size());
    const std::vector<bool> moves = moving_calls(&is_read);
    plan.nothing = c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, c10::Device(c10::kCPU)));
    for (std::uint32_t i = 0; i < events_.size(); ++i) {
        const Call* const call = events_[i].call;
        if (!moves[i] || !moves_with_base(*call)) continue;
        for (std::uint32_t value : call->results) {
            const Seen& seen = seen_[value];
            at::Tensor tensor = view_of_nothing(seen.look, plan.nothing);
            plan.moving.push_back(
                {value, std::move(tensor), base_of_[value], seen.birth, seen.death, call, is_read[value]});
            is_kept_[value] = true;
        }
    }
}

}  // namespace stator::torch_room
