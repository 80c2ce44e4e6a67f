/// What a planned row keeps between runs, and how it is found out. For the files of this room only.
#pragma once

#include <Python.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torch/calls/planned_memory.h"
#include "torch/calls/planned_row.h"
#include "torch/calls/prepared_step.h"

namespace stator::torch_room {

/// All of a tensor on which it depends which kernel an operator runs, and how its results are laid out.
struct TensorLook {
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    at::ScalarType dtype = at::ScalarType::Undefined;
    std::uint64_t keys = 0;

    static TensorLook of(const at::Tensor& tensor);
    bool matches(const at::Tensor& tensor) const;
};

/// A value, and what it has to look like.
struct Expected {
    std::uint32_t value;
    TensorLook look;
};

struct RowPlan {
    /// A value that is the same tensor in all runs.
    struct Kept {
        std::uint32_t value;
        at::Tensor tensor;
        std::uint32_t birth, death;  // events
        std::uint32_t chunk;         // has its memory
        // If they are others after a run, somebody has kept a reference.
        std::size_t tensor_uses = 0, storage_uses = 0;

        void note_uses();
        bool has_other_uses() const;
    };
    /// Memory of some of them.
    struct Chunk {
        MemoryChunk memory;
        std::uint32_t first, last;        // the events between which it is in use
        std::vector<std::uint32_t> kept;  // that have it
    };
    /// A view of a tensor that is another one in each run, or may be: the view has its memory while it is in use.
    struct MovingView {
        std::uint32_t value;
        at::Tensor tensor;
        std::uint32_t base;  // has that memory, and is in use for as long as the view
        std::uint32_t birth, death;
        const Call* call;
        bool is_read = false;  // by a call that is made
    };
    struct Item {
        const Call* call = nullptr;  // null: of views that are kept
        bool writes_kept = false;    // to tensors of the plan
        std::uint32_t event = 0;
        std::vector<Expected> expected;  // of the results
        std::vector<Alias> aliases;
        std::vector<std::uint32_t> taken, given_back;  // chunks
        std::vector<std::uint32_t> begun, ended;       // moving views that are read
        std::vector<std::uint32_t> released;

        bool is_empty() const {
            return call == nullptr && aliases.empty() && taken.empty() && given_back.empty() && begun.empty() &&
                   ended.empty() && released.empty();
        }
    };

    std::vector<Kept> kept;          // results first
    std::vector<MovingView> moving;  // in the order of their calls
    c10::Storage nothing;            // of moving views that are not in use
    std::vector<Expected> expected;  // from outside of the row
    std::deque<Call> calls;          // those that write to kept tensors
    std::vector<Item> items;
    std::vector<std::uint32_t> first_item;  // by step, and the end
    std::vector<Chunk> chunks;
    std::size_t results = 0;
    Py_ssize_t registrations = 0;  // of kernels, by the program
};

/// Whether the result is a view of the only tensor among the operands.
bool is_view(const Call& call);

template <class Visit>
void for_each_operand(const Call& call, const Visit& visit) {
    for (const Slot& slot : call.slots) slot.for_each_tensor(visit);
}

/// How many kernels the program has registered in Python. Needs the interpreter's lock.
Py_ssize_t kernel_registrations();

/// Runs a row, and notes what it does.
class RowObservation {
  public:
    RowObservation(const std::vector<RowEvent>& events, std::span<const std::uint32_t> first_event,
                   std::span<const PreparedStep> steps);

    void run(std::uint32_t event, const Memory& memory);
    /// Null if nothing is gained.
    std::unique_ptr<RowPlan> plan();

  private:
    struct Seen {
        TensorLook look;
        std::uint32_t root = kNoValue;  // the value that has its memory; none if that came from outside
        std::uint32_t birth = 0, death = 0;
        std::uint32_t last_use = 0;  // of a root: when the last value that has its memory is released
        std::size_t bytes = 0;
        bool is_made = false, is_released = false;
        bool is_usual = false;
        bool is_plannable = false;  // a root that has been written by an `out` form
    };

    void observe_call(std::uint32_t event, const Call& call, const Memory& memory);
    void note_results(std::uint32_t event, const Call& call, const at::Tensor* values);
    void note_use(const Call& call);
    void disqualify(const Call& call);
    bool keeps_nothing(const Call& call);
    bool is_pytorchs(const c10::OperatorHandle& operation);
    bool is_small(const Call& call, const at::Tensor* values) const;
    struct OtherForm {
        Call call;
        bool writes;  // to tensors that exist
    };
    std::optional<OtherForm> other_form(const Call& call, const at::Tensor* values) const;
    bool computes_the_same(const OtherForm& form, std::uint32_t event, const Memory& memory);
    void try_other_form(std::uint32_t event, const Call& call, const Memory& memory);
    Seen& at(std::uint32_t value);
    std::uint32_t root_of(std::uint32_t value);
    const Call* out_of(const Call* call) const;

    void settle_lives();
    std::vector<std::size_t> bytes_in_use() const;
    void keep_results(RowPlan& plan);
    void keep(RowPlan& plan, RowPlan::Kept kept);
    std::int32_t replaced_by(const Call& call, std::uint32_t event,
                             const std::unordered_map<std::uint32_t, std::int32_t>& number_of_root);
    void keep_views(RowPlan& plan);
    void find_moving_views(RowPlan& plan);
    std::vector<bool> moving_calls(std::vector<bool>* is_read);
    bool moves_with_base(const Call& call) const;
    bool may_move(const Call& call);
    bool stays(const Call& call, std::uint32_t value);
    void write_items(RowPlan& plan);
    std::vector<bool> read_by_plan(const RowPlan& plan) const;
    RowPlan::Item item_of(std::uint32_t event, const std::vector<bool>& is_read, RowPlan& plan) const;

    const std::vector<RowEvent>& events_;
    std::span<const std::uint32_t> first_event_;
    std::span<const PreparedStep> steps_;
    std::vector<Seen> seen_;                             // by value
    std::vector<std::size_t> taken_meanwhile_;           // by event: bytes that only the operator itself has used
    std::unordered_map<const Call*, Call> out_;          // calls that can write to kept tensors
    std::unordered_map<const Call*, Call> cast_;         // others, with numbers in the dtype of the tensors
    std::unordered_map<std::string, bool> is_pytorchs_;  // by the operator's name
    std::vector<bool> is_kept_;                          // by value
    std::vector<std::uint32_t> base_of_;                 // by value, of moving views
};

}  // namespace stator::torch_room
