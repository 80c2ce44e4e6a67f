/// The results of a row that are the same tensors in all runs, and the memory that they share.
#include <algorithm>

#include "torch/calls/memory_layout.h"
#include "torch/calls/out_forms.h"
#include "torch/calls/row_plan.h"

namespace stator::torch_room {

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

/// By call: what all results have that the row makes, and what the operator takes for itself.
std::vector<std::size_t> RowObservation::bytes_in_use() const {
    std::vector<std::ptrdiff_t> change(events_.size() + 2);
    for (std::uint32_t value = 0; value < seen_.size(); ++value) {
        const Seen& seen = seen_[value];
        if (!seen.is_made || seen.root != value) continue;
        change[seen.birth] += static_cast<std::ptrdiff_t>(seen.bytes);
        change[seen.last_use + 1] -= static_cast<std::ptrdiff_t>(seen.bytes);
    }
    std::vector<std::size_t> in_use;
    std::ptrdiff_t now = 0;
    for (std::uint32_t event = 0; event < events_.size(); ++event) {
        now += change[event];
        if (events_[event].call != nullptr) in_use.push_back(static_cast<std::size_t>(now) + taken_meanwhile_[event]);
    }
    return in_use;
}

/// Makes the tensors of the results that an `out` form writes.
void RowObservation::keep_results(RowPlan& plan) {
    std::vector<Life> lives;
    std::vector<std::uint32_t> roots;
    std::unordered_map<std::uint32_t, std::int32_t> number_of_root;
    for (std::uint32_t event = 0; event < events_.size(); ++event) {
        const Call* const call = events_[event].call;
        if (out_of(call) == nullptr) continue;
        for (std::uint32_t value : call->results) {
            const std::int32_t replaces = replaced_by(*call, event, number_of_root);
            number_of_root[value] = static_cast<std::int32_t>(lives.size());
            lives.push_back({seen_[value].bytes, event, seen_[value].last_use, replaces});
            roots.push_back(value);
        }
    }
    if (roots.empty()) return;
    std::vector<std::uint32_t> calls, calls_before;  // events of calls, and how many are before each event
    for (std::uint32_t event = 0; event < events_.size(); ++event) {
        calls_before.push_back(static_cast<std::uint32_t>(calls.size()));
        if (events_[event].call != nullptr) calls.push_back(event);
    }
    for (Life& life : lives) {
        const bool ends_with_call = events_[life.last].call != nullptr;
        life.first = calls_before[life.first];
        life.last = calls_before[life.last] - (ends_with_call ? 0 : 1);
    }
    const Layout layout = lay_out(lives, bytes_in_use());
    for (const SharedChunk& chunk : layout.chunks)
        plan.chunks.push_back({MemoryChunk(chunk.bytes), calls[chunk.first], calls[chunk.last], {}});
    for (std::size_t i = 0; i < roots.size(); ++i) {
        const Seen& seen = seen_[roots[i]];
        const std::uint32_t chunk = layout.chunk_of[i];
        at::Tensor tensor = plan.chunks[chunk].memory.make_tensor(seen.look, seen.bytes);
        if (!seen.look.matches(tensor)) continue;
        keep(plan, {roots[i], std::move(tensor), seen.birth, seen.death, chunk});
    }
    plan.results = plan.kept.size();
}

void RowObservation::keep(RowPlan& plan, RowPlan::Kept kept) {
    plan.chunks[kept.chunk].kept.push_back(static_cast<std::uint32_t>(plan.kept.size()));
    is_kept_[kept.value] = true;
    plan.kept.push_back(std::move(kept));
}

}  // namespace stator::torch_room
