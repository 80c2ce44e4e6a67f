/// A runner's steps, as far as possible without Python: docs/design/executor.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/preparable.h"
#include "graph/recorded_part.h"
#include "graph/runner.h"
#include "torch/calls/prepared_calls.h"

namespace stator::graph {

/// For tests, which call a program few times: from now on the first run of each program is observed, or not.
void observe_first_runs(bool observes);

/// The first runs go step by step, the last of them observed: which operators are called. Later ones call these
/// operators.
class Program {
  public:
    explicit Program(const Runner& runner, Recording recording) : runner_(runner), recording_(recording) {}

    /// As `Runner::run`.
    Ref<> run(std::span<PyObject* const> inputs, Borrowed<> module, std::optional<Failure>* failure);

    /// Steps that run as prepared calls, and the operators that they call. None before the observed run.
    std::size_t prepared_steps() const;
    std::size_t prepared_calls() const { return calls_ ? calls_->call_count() : 0; }
    const torch_room::PreparedCalls* calls() const { return calls_.get(); }

    /// Consecutive steps, and what the device has recorded of them.
    struct RecordingState {
        std::uint32_t first, last;
        std::size_t calls = 0, recordings = 0;
        std::uint64_t replays = 0;
        std::string reason;  // why it is not recorded; empty if it is, or may be
    };
    /// Empty if no step could be recorded.
    std::vector<RecordingState> recording_states() const;
    std::string step_name(std::uint32_t step) const;

  private:
    using Operand = Runner::Operand;
    using Step = Runner::Step;
    enum class State : std::uint8_t { New, HasRun, Observing, Ready, NotWorthIt };

    /// How a step runs.
    struct Plan {
        bool is_prepared = false;
        bool takes_item = false;  // of a prepared tuple: no call at all
        torch_room::PreparedResult result;
    };
    /// Consecutive steps that run in the same way.
    struct Part {
        std::uint32_t first, last;
        bool is_prepared;
        std::vector<std::uint32_t> read;     // values from outside of the part that its calls read
        std::vector<std::uint32_t> loaded;   // registers whose tensors the calls read
        std::vector<std::uint32_t> numbers;  // registers whose numbers they read
        std::vector<std::uint32_t> needed;   // registers of prepared steps that Python code reads
        std::vector<std::uint32_t> released_objects;
        std::unique_ptr<RecordedPart> recorded;  // null if a device can't record it
    };
    /// What is known while the observed run goes on.
    struct Building;

    bool is_time_to_observe(std::span<PyObject* const> inputs) const;
    Ref<> run_observed(std::span<PyObject* const> inputs, Borrowed<> module, std::optional<Failure>* failure);
    Plan plan_step(const Step& step, std::span<PyObject* const> inputs, const Registers& registers,
                   Preparable preparable, const torch_room::CallObserver& observer, Building& building) const;
    bool take_item(const Step& step, Building& building, Plan* plan) const;
    bool reads_no_sizes(const Step& step, Preparable preparable) const;
    bool has_plain_key(Operand key) const;
    bool is_none(const Step& step, std::uint32_t place, std::string_view name) const;
    struct Operands;
    bool collect(const Step& step, std::span<PyObject* const> inputs, const Registers& registers,
                 const Building& building, Operands* operands) const;
    std::optional<torch_room::GivenOperand> given(Operand operand, std::span<PyObject* const> inputs,
                                                  const Registers& registers, const Building& building,
                                                  Operands* operands) const;
    void finish(Building building);
    void keep_tuples_of_python(Building& building) const;
    void make_parts(const Building& building);
    void release_values(const Building& building);
    bool begins_part(const Building& building, const Step& step) const;
    void make_recorded_parts();
    void plan_memory();
    std::string why_not_recorded(const Part& part) const;

    Ref<> run_prepared(std::span<PyObject* const> inputs, Borrowed<> module, std::optional<Failure>* failure) const;
    bool run_part(const Part& part, std::span<PyObject* const> inputs, Borrowed<> module, Registers& registers,
                  torch_room::TensorValues& values, const Step** failed) const;
    static bool load_numbers(const Part& part, Registers& registers, torch_room::TensorValues& values,
                             const std::vector<std::uint32_t>& value_of);
    Ref<> go_on_as_captured(const Part& part, std::span<PyObject* const> inputs, Borrowed<> module,
                            Registers& registers, torch_room::TensorValues& values,
                            std::optional<Failure>* failure) const;
    static void release_objects(const Part& part, Registers& registers);
    void make_object(std::uint32_t number, Registers& registers, const torch_room::TensorValues& values) const;
    /// Of all steps before this one, as far as their results are in use.
    void make_objects(const Step* end, Registers& registers, const torch_room::TensorValues& values) const;

    /// Calls `visit(number)` for the registers, and `visit_input(number)` for the inputs, in an operand.
    template <class Visit, class VisitInput>
    void for_each_place(Operand operand, const Visit& visit, const VisitInput& visit_input) const;
    template <class Visit>
    void for_each_register(const Step& step, const Visit& visit) const;

    const Runner& runner_;
    Recording recording_;
    State state_ = State::New;
    int attempts_ = 0;
    torch_room::DispatchState dispatch_;
    std::unique_ptr<torch_room::PreparedCalls> calls_;
    std::map<std::int32_t, std::unique_ptr<torch_room::RecordingPool>> pools_;  // by device
    std::vector<Plan> plans_;                                                   // by step
    std::vector<std::uint32_t> value_of_;                                       // by register
    std::vector<std::uint32_t> loaded_inputs_;                                  // those that prepared calls read
    std::vector<std::uint32_t> number_inputs_;                                  // the same, of numbers
    std::vector<std::uint32_t> needed_outputs_;  // registers of prepared steps among the results
    std::vector<Part> parts_;
};

}  // namespace stator::graph
