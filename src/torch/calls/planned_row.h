/// A row of prepared calls with a plan of its memory: results that the program never sees are tensors that were made
/// once, and get their memory in each run (docs/design/executor.md#memory-by-plan). For the files of this room only; it
/// includes PyTorch's headers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace stator::torch_room {

struct Call;
struct Memory;
struct PreparedStep;
struct RowPlan;
class RowObservation;

/// What happens in a run of a row, one after the other.
struct RowEvent {
    std::uint32_t step;
    const Call* call;  // null: the step has ended, what it returns gets its numbers
    std::span<const std::uint32_t> released;
};

/// The first run without autograd is observed, and the plan made of it. Later ones use the plan, one at a time.
class PlannedRow {
  public:
    PlannedRow(std::span<const PreparedStep> steps, std::size_t first, std::size_t last);
    ~PlannedRow();
    PlannedRow(const PlannedRow&) = delete;
    PlannedRow& operator=(const PlannedRow&) = delete;

    const RowPlan* plan() const { return plan_.get(); }

    /// One run. Created, ended and destroyed under the interpreter's lock; `go_on` does not need it.
    class Run {
      public:
        /// `row`: null if the calls run without a plan.
        Run(PlannedRow* row, at::Tensor* values);
        ~Run();
        Run(const Run&) = delete;
        Run& operator=(const Run&) = delete;

        /// Whether `go_on` runs the next step.
        bool is_active() const { return way_ != Way::Plain; }
        /// Runs one step without autograd.
        void go_on(std::size_t step, const Memory& memory);
        /// The row has ended. Otherwise it has raised, and the program may see all that is in use.
        void end();

      private:
        enum class Way : std::uint8_t { Plain, Observed, Planned };

        void go_on_as_planned(std::size_t step, const Memory& memory);
        void give_back(std::uint32_t chunk);
        void leave_plan(std::uint32_t next_event);
        void make_views_anew(std::uint32_t next_event);
        void begin_plan();

        PlannedRow* row_ = nullptr;  // null if the calls run without it
        at::Tensor* values_;
        Way way_ = Way::Plain;
        bool has_ended_ = false;
        std::uint32_t event_ = 0;  // that goes on, or the next one
        std::unique_ptr<RowObservation> observation_;
    };

  private:
    void list_events();
    void run_events(std::uint32_t from, std::uint32_t to, const Memory& memory) const;
    void give_up_plan();

    std::span<const PreparedStep> steps_;
    std::size_t first_, last_;
    std::vector<RowEvent> events_;
    std::vector<std::uint32_t> first_event_;  // by step, and the end
    bool is_busy_ = false;                    // a run uses the plan, or makes it
    bool is_new_ = true;
    int attempts_ = 0;
    std::unique_ptr<RowPlan> plan_;
};

}  // namespace stator::torch_room
