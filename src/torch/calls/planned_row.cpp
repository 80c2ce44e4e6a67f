#include "torch/calls/planned_row.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <utility>

#include "torch/calls/row_plan.h"

namespace stator::torch_room {

namespace {

constexpr int kAttempts = 3;

/// Puts a tensor of the plan where the calls read it, without counting a reference.
void lend(at::Tensor& place, const at::Tensor& tensor) {
    place.~Tensor();
    new (&place) at::Tensor(
        c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(tensor.unsafeGetTensorImpl()));
}

void take_back(at::Tensor& place) {
    place.unsafeReleaseTensorImpl();
}

}  // namespace

PlannedRow::PlannedRow(std::span<const PreparedStep> steps, std::size_t first, std::size_t last)
    : steps_(steps), first_(first), last_(last) {}

/// Not before a second call, so that the first one does not wait for it.
void PlannedRow::list_events() {
    for (std::size_t number = first_; number < last_; ++number) {
        const PreparedStep& step = steps_[number];
        first_event_.push_back(static_cast<std::uint32_t>(events_.size()));
        const auto at = static_cast<std::uint32_t>(number);
        for (const Call& call : step.calls_without_autograd()) events_.push_back({at, &call, call.released});
        events_.push_back({at, nullptr, step.released});
    }
    first_event_.push_back(static_cast<std::uint32_t>(events_.size()));
}

PlannedRow::~PlannedRow() = default;

/// Without the plan.
void PlannedRow::run_events(std::uint32_t from, std::uint32_t to, const Memory& memory) const {
    for (std::uint32_t i = from; i < to; ++i) {
        const RowEvent& event = events_[i];
        if (event.call != nullptr)
            make_call_without_autograd(*event.call, memory);
        else
            for (const Alias& alias : steps_[event.step].aliases) memory.values[alias.to] = memory.values[alias.from];
        for (std::uint32_t value : event.released) memory.values[value].reset();
    }
}

/// Somebody else has tensors of the plan: they are no longer written to. The memory lives as long as one of them.
void PlannedRow::give_up_plan() {
    for (RowPlan::Chunk& chunk : plan_->chunks) chunk.memory.leave_to_tensors();
    plan_.reset();
    is_new_ = ++attempts_ < kAttempts;
}

PlannedRow::Run::Run(PlannedRow* row, at::Tensor* values) : values_(values) {
    if (row == nullptr || row->is_busy_) return;
    row_ = row;
    if (row->plan_ != nullptr) {
        begin_plan();
    } else if (row->is_new_) {
        way_ = Way::Observed;
        if (row->events_.empty()) row->list_events();
        observation_ = std::make_unique<RowObservation>(row->events_, row->first_event_, row->steps_);
    }
    if (way_ == Way::Plain) row_ = nullptr;
    if (row_ != nullptr) row_->is_busy_ = true;
}

namespace {

void give_memory(const at::Tensor& view, const c10::Storage& storage) {
    view.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
}

}  // namespace

void PlannedRow::Run::begin_plan() {
    const RowPlan& plan = *row_->plan_;
    if (kernel_registrations() != plan.registrations) return row_->give_up_plan();
    const bool is_expected =
        std::ranges::all_of(plan.expected, [&](const Expected& one) { return one.look.matches(values_[one.value]); });
    if (!is_expected) return;
    way_ = Way::Planned;
    for (const RowPlan::Kept& kept : plan.kept) lend(values_[kept.value], kept.tensor);
    for (const RowPlan::MovingView& view : plan.moving) lend(values_[view.value], view.tensor);
}

PlannedRow::Run::~Run() {
    if (row_ == nullptr) return;
    row_->is_busy_ = false;
    if (has_ended_) return;
    if (observation_ != nullptr) {
        row_->is_new_ = ++row_->attempts_ < kAttempts;
        return;
    }
    // The program sees what is in use, also if the run has left the plan before.
    if (way_ == Way::Planned) leave_plan(event_);
    row_->give_up_plan();
}

void PlannedRow::Run::end() {
    has_ended_ = true;
    if (row_ == nullptr) return;
    if (way_ == Way::Observed) {
        row_->is_new_ = false;
        row_->plan_ = observation_->plan();
        return;
    }
    if (row_->plan_ == nullptr) return;
    RowPlan& plan = *row_->plan_;
    if (way_ == Way::Planned) {
        for (const RowPlan::Kept& kept : plan.kept) take_back(values_[kept.value]);
        for (const RowPlan::MovingView& view : plan.moving) take_back(values_[view.value]);
    }
    // All of them if the run has left the plan.
    for (std::uint32_t number = 0; number < plan.chunks.size(); ++number)
        if (plan.chunks[number].memory.is_taken()) give_back(number);
    const bool is_kept_by_others =
        std::ranges::any_of(plan.chunks, [](const RowPlan::Chunk& chunk) { return chunk.memory.is_taken(); }) ||
        std::ranges::any_of(plan.moving, [](const RowPlan::MovingView& view) { return view.tensor.use_count() != 1; });
    if (is_kept_by_others) row_->give_up_plan();
}

/// Unless somebody else has a tensor of it, who keeps it until the row has ended.
void PlannedRow::Run::give_back(std::uint32_t number) {
    RowPlan& plan = *row_->plan_;
    RowPlan::Chunk& chunk = plan.chunks[number];
    const bool is_free =
        std::ranges::none_of(chunk.kept, [&](std::uint32_t kept) { return plan.kept[kept].has_other_uses(); });
    if (is_free) chunk.memory.give_back();
}

void PlannedRow::Run::go_on(std::size_t step, const Memory& memory) {
    const std::size_t place = step - row_->first_;
    if (way_ == Way::Planned) return go_on_as_planned(place, memory);
    for (event_ = row_->first_event_[place]; event_ < row_->first_event_[place + 1]; ++event_)
        observation_->run(event_, memory);
}

void PlannedRow::Run::go_on_as_planned(std::size_t step, const Memory& memory) {
    RowPlan& plan = *row_->plan_;
    for (std::uint32_t i = plan.first_item[step]; i < plan.first_item[step + 1]; ++i) {
        const RowPlan::Item& item = plan.items[i];
        event_ = item.event;
        for (std::uint32_t number : item.taken) plan.chunks[number].memory.take();
        for (std::uint32_t number : item.begun)
            give_memory(plan.moving[number].tensor, memory.values[plan.moving[number].base].storage());
        if (item.writes_kept) {
            at::AutoDispatchBelowADInplaceOrView guard;
            make_call(*item.call, memory);
        } else if (item.call != nullptr) {
            make_call_without_autograd(*item.call, memory);
        }
        for (const Alias& alias : item.aliases) memory.values[alias.to] = memory.values[alias.from];
        for (const Expected& one : item.expected) {
            if (one.look.matches(memory.values[one.value])) continue;
            // Nothing of this event has been released yet.
            leave_plan(item.event + 1);
            for (std::uint32_t value : row_->events_[item.event].released) memory.values[value].reset();
            row_->run_events(item.event + 1, row_->first_event_[step + 1], memory);
            return;
        }
        for (std::uint32_t number : item.given_back) give_back(number);
        for (std::uint32_t number : item.ended) give_memory(plan.moving[number].tensor, plan.nothing);
        for (std::uint32_t value : item.released) memory.values[value].reset();
    }
    event_ = row_->first_event_[step + 1];
}

/// The calls from this event on run without the plan.
void PlannedRow::Run::leave_plan(std::uint32_t next_event) {
    way_ = Way::Plain;
    const RowPlan& plan = *row_->plan_;
    for (const RowPlan::Kept& kept : plan.kept) {
        take_back(values_[kept.value]);
        if (kept.birth < next_event && kept.death >= next_event) values_[kept.value] = kept.tensor;
    }
    for (const RowPlan::MovingView& view : plan.moving) {
        take_back(values_[view.value]);
        give_memory(view.tensor, plan.nothing);
    }
    make_views_anew(next_event);
}

/// As the program knows them: their bases know them too.
void PlannedRow::Run::make_views_anew(std::uint32_t next_event) {
    const RowPlan& plan = *row_->plan_;
    std::vector<c10::IValue> stack;
    const Memory memory{values_, {}, stack};
    for (const RowPlan::MovingView& view : plan.moving) {
        const bool is_first = view.value == view.call->results[0];
        if (is_first && view.birth < next_event && values_[view.base].defined())
            make_call_without_autograd(*view.call, memory);
    }
    for (const RowPlan::MovingView& view : plan.moving)
        if (view.death < next_event) values_[view.value].reset();
}

}  // namespace stator::torch_room
