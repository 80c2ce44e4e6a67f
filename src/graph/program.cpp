#include "graph/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/tensor.h"

namespace stator::graph {

using torch_room::GivenOperand;
using torch_room::OperandTensor;
using torch_room::PreparedCalls;
using torch_room::PreparedResult;
using torch_room::TensorValues;

namespace {

constexpr int kAttempts = 3;
bool observes_first_runs = false;

bool is_getitem(PyObject* target) {
    static PyObject* const getitem = [] {
        Ref<> module = checked(PyImport_ImportModule("_operator"));
        return checked(PyObject_GetAttrString(module.get(), "getitem")).release();
    }();
    return target == getitem;
}

void note_numbers(const std::vector<GivenOperand>& operands, std::vector<bool>& is_number) {
    for (const GivenOperand& operand : operands) {
        if (operand.kind == GivenOperand::Kind::Number) is_number[operand.number] = true;
        note_numbers(operand.items, is_number);
    }
}

}  // namespace

void observe_first_runs(bool observes) {
    observes_first_runs = observes;
}

struct Program::Building {
    std::unique_ptr<PreparedCalls> calls;
    std::vector<Plan> plans;
    std::vector<std::uint32_t> value_of;
    std::map<std::pair<NodeKind, PyObject*>, Preparable> asked;  // most targets come often
    std::vector<bool> is_number;                                 // values that are numbers: of inputs and registers

    Preparable preparable(const Step& step) {
        auto [place, is_new] = asked.try_emplace({step.kind, step.target}, Preparable::No);
        if (is_new) place->second = graph::preparable(step.kind, step.target);
        return place->second;
    }
};

/// What a step was called with.
struct Program::Operands {
    std::vector<OperandTensor> tensors;
    std::vector<GivenOperand> given;
    bool has_numbers = false;
};

template <class Visit, class VisitInput>
void Program::for_each_place(Operand operand, const Visit& visit, const VisitInput& visit_input) const {
    if (operand.kind == Operand::Kind::Register) {
        visit(operand.number);
    } else if (operand.kind == Operand::Kind::Input) {
        visit_input(operand.number);
    } else if (operand.kind == Operand::Kind::Container) {
        for (Operand item : runner_.containers_[operand.number].values) for_each_place(item, visit, visit_input);
    }
}

template <class Visit>
void Program::for_each_register(const Step& step, const Visit& visit) const {
    for (std::uint32_t i = 0; i < step.operands; ++i)
        for_each_place(runner_.operands_[step.first_operand + i], visit, [](std::uint32_t) {});
}

std::size_t Program::prepared_steps() const {
    return static_cast<std::size_t>(std::ranges::count_if(plans_, &Plan::is_prepared));
}

Ref<> Program::run(std::span<PyObject* const> inputs, Borrowed<> module, std::optional<Failure>* failure) {
    if (state_ == State::Ready) {
        if (torch_room::read_dispatch_state() == dispatch_) return run_prepared(inputs, module, failure);
    } else if (is_time_to_observe(inputs)) {
        const torch_room::DispatchState dispatch = torch_room::read_dispatch_state();
        if (!dispatch.is_watched) {
            dispatch_ = dispatch;
            return run_observed(inputs, module, failure);
        }
    }
    if (state_ == State::New) state_ = State::HasRun;
    return runner_.run_as_captured(inputs, module, failure);
}

// ---- The observed run
// ------------------------------------------------------------------------------------------------

/// The first run would take longer for it, and many graphs run once. Where a device may record the calls, that does not
/// count beside launching its kernels, and every call before the recording takes many times as long as those after it.
bool Program::is_time_to_observe(std::span<PyObject* const> inputs) const {
    if (state_ != State::New) return state_ == State::HasRun;
    return observes_first_runs || (recording_ != Recording::Off && std::ranges::any_of(inputs, [](PyObject* input) {
                                       return torch_room::is_on_recording_device(input);
                                   }));
}

Ref<> Program::run_observed(std::span<PyObject* const> inputs, Borrowed<> module, std::optional<Failure>* failure) {
    // Until it has ended, other threads run the graph as it was captured.
    state_ = State::Observing;
    const auto input_count = static_cast<std::uint32_t>(runner_.input_count());
    Building building;
    building.calls = std::make_unique<PreparedCalls>(runner_.steps_.size(), input_count + runner_.registers_);
    building.plans.resize(runner_.steps_.size());
    for (std::uint32_t i = 0; i < runner_.registers_; ++i) building.value_of.push_back(input_count + i);
    building.is_number.resize(input_count + runner_.registers_);
    Registers registers(runner_.registers_, runner_.longest_call_);
    {
        torch_room::CallObserver observer;
        for (const Step& step : runner_.steps_) {
            Preparable preparable = building.preparable(step);
            std::optional<WarningCount> warnings;
            if (preparable >= Preparable::Function) warnings.emplace();
            observer.begin();
            if (!runner_.call(step, inputs, module, registers)) {
                state_ = ++attempts_ < kAttempts ? State::HasRun : State::NotWorthIt;
                return runner_.fail(step, registers, failure);
            }
            if (warnings && warnings->any()) preparable = Preparable::No;
            building.plans[step.result] = plan_step(step, inputs, registers, preparable, observer, building);
            for (std::uint32_t i = 0; i < step.releases; ++i)
                registers.release(runner_.released_[step.first_release + i]);
        }
    }
    Ref<> result = runner_.value(runner_.output_, inputs, registers);
    finish(std::move(building));
    return result;
}

Program::Plan Program::plan_step(const Step& step, std::span<PyObject* const> inputs, const Registers& registers,
                                 Preparable preparable, const torch_room::CallObserver& observer,
                                 Building& building) const {
    Plan plan;
    if (preparable == Preparable::No) return plan;
    if (take_item(step, building, &plan)) return plan;
    auto is_tensor_operand = [](Operand operand) {
        return operand.kind == Operand::Kind::Input || operand.kind == Operand::Kind::Register;
    };
    if (!runner_.has_fixed_sizes_ && !reads_no_sizes(step, preparable)) return plan;
    Operands operands;
    if (!collect(step, inputs, registers, building, &operands)) return plan;
    if (operands.has_numbers && preparable != Preparable::Binding) return plan;
    if (preparable == Preparable::Products && operands.tensors.size() > 2) return plan;
    // A method of a tensor, and not, say, one of a string.
    if (step.kind == NodeKind::Method && !is_tensor_operand(runner_.operands_[step.first_operand])) return plan;
    using Sizes = PreparedCalls::Sizes;
    const Sizes if_they_change = preparable == Preparable::Binding ? Sizes::ChangeInOneCall : Sizes::Change;
    const Sizes sizes = runner_.has_fixed_sizes_ ? Sizes::Fixed : if_they_change;
    std::optional<PreparedResult> result = building.calls->prepare(
        step.result, observer, {operands.tensors, operands.given}, registers[step.result], sizes);
    if (!result) return plan;
    plan.is_prepared = true;
    note_numbers(operands.given, building.is_number);
    plan.result = std::move(*result);
    if (plan.result.kind == PreparedResult::Kind::Tensor) building.value_of[step.result] = plan.result.values[0];
    return plan;
}

/// Where sizes change between calls: whether the step makes the same calls nevertheless, and gives them no size. (Of a
/// call that returns a list, guards hold how many tensors that has: the graph has them one by one.)
bool Program::reads_no_sizes(const Step& step, Preparable preparable) const {
    switch (preparable) {
        case Preparable::Binding:
        case Preparable::Forwarding:
            return true;
        case Preparable::Embedding:
            return is_none(step, 2, "padding_idx") && is_none(step, 3, "max_norm");
        case Preparable::Indexing:
            return step.operands == 2 && has_plain_key(runner_.operands_[step.first_operand + 1]);
        default:
            return false;
    }
}

/// Whether an index makes the same views of a tensor of any size.
bool Program::has_plain_key(Operand key) const {
    bool is_constant = true;
    auto changes = [&](std::uint32_t) { is_constant = false; };
    for_each_place(key, changes, changes);
    if (!is_constant) return false;
    Ref<> object = runner_.value(key, {}, Registers(0, 0));
    if (!object) PyErr_Clear();
    return object && makes_same_views(object);
}

/// Whether an argument is None or not given.
bool Program::is_none(const Step& step, std::uint32_t place, std::string_view name) const {
    for (std::uint32_t i = 0; i < step.operands; ++i) {
        const bool is_it =
            i < step.positional ? i == place : utf8(PyTuple_GET_ITEM(step.keyword_names, i - step.positional)) == name;
        if (!is_it) continue;
        const Operand operand = runner_.operands_[step.first_operand + i];
        return operand.kind == Operand::Kind::Constant && runner_.constants_[operand.number] == Py_None;
    }
    return true;
}

/// `result[1]` of a prepared call with several results.
bool Program::take_item(const Step& step, Building& building, Plan* plan) const {
    if (step.kind != NodeKind::Function || !is_getitem(step.target) || step.operands != 2) return false;
    const Operand container = runner_.operands_[step.first_operand], key = runner_.operands_[step.first_operand + 1];
    if (container.kind != Operand::Kind::Register || key.kind != Operand::Kind::Constant) return false;
    const Plan& maker = building.plans[container.number];
    PyObject* const index = runner_.constants_[key.number];
    if (!maker.is_prepared || maker.result.kind != PreparedResult::Kind::Tuple || !PyLong_CheckExact(index))
        return false;
    const auto size = static_cast<Py_ssize_t>(maker.result.values.size());
    Py_ssize_t at = PyLong_AsSsize_t(index);
    if (at < 0) at += size;
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    if (at < 0 || at >= size) return false;
    plan->is_prepared = plan->takes_item = true;
    plan->result = {PreparedResult::Kind::Tensor, {maker.result.values[static_cast<std::size_t>(at)]}};
    building.value_of[step.result] = plan->result.values[0];
    return true;
}

/// The operands of a step. False if one is neither a tensor, nor a number, nor the same in all calls.
bool Program::collect(const Step& step, std::span<PyObject* const> inputs, const Registers& registers,
                      const Building& building, Operands* operands) const {
    for (std::uint32_t i = 0; i < step.operands; ++i) {
        std::optional<GivenOperand> one =
            given(runner_.operands_[step.first_operand + i], inputs, registers, building, operands);
        if (!one) return false;
        if (i >= step.positional) one->keyword = PyTuple_GET_ITEM(step.keyword_names, i - step.positional);
        operands->given.push_back(std::move(*one));
    }
    if (!operands->has_numbers) operands->given.clear();
    return true;
}

std::optional<GivenOperand> Program::given(Operand operand, std::span<PyObject* const> inputs,
                                           const Registers& registers, const Building& building,
                                           Operands* operands) const {
    auto of_value = [&](PyObject* object, std::uint32_t value) -> std::optional<GivenOperand> {
        if (object == nullptr) return std::nullopt;
        if (torch_room::is_plain_tensor(object)) {
            operands->tensors.push_back({object, value});
            return GivenOperand{GivenOperand::Kind::Tensor, object, value};
        }
        if (!PyLong_CheckExact(object) && !PyFloat_CheckExact(object)) return std::nullopt;
        operands->has_numbers = true;
        return GivenOperand{GivenOperand::Kind::Number, object, value};
    };
    switch (operand.kind) {
        case Operand::Kind::Input:
            return of_value(inputs[operand.number], operand.number);
        case Operand::Kind::Register:
            return of_value(registers[operand.number], building.value_of[operand.number]);
        case Operand::Kind::Constant: {
            PyObject* const constant = runner_.constants_[operand.number];
            if (!is_plain_constant(constant)) return std::nullopt;
            if (!PyTuple_CheckExact(constant) && !PyList_CheckExact(constant))
                return GivenOperand{GivenOperand::Kind::Constant, constant};
            GivenOperand sequence{GivenOperand::Kind::Sequence};
            for (Py_ssize_t i = 0; i < Py_SIZE(constant); ++i)
                sequence.items.push_back({GivenOperand::Kind::Constant, PySequence_Fast_ITEMS(constant)[i]});
            return sequence;
        }
        case Operand::Kind::Container: {
            const Runner::Container& container = runner_.containers_[operand.number];
            if (container.kind == Argument::Kind::Dict || container.type) return std::nullopt;
            GivenOperand sequence{GivenOperand::Kind::Sequence};
            for (Operand item : container.values) {
                std::optional<GivenOperand> one = given(item, inputs, registers, building, operands);
                if (!one) return std::nullopt;
                sequence.items.push_back(std::move(*one));
            }
            return sequence;
        }
    }
    return std::nullopt;
}

void Program::finish(Building building) {
    keep_tuples_of_python(building);
    const bool is_worth_it = std::ranges::any_of(building.plans, &Plan::is_prepared);
    if (is_worth_it) {
        release_values(building);
        make_parts(building);
        plans_ = std::move(building.plans);
        value_of_ = std::move(building.value_of);
        calls_ = std::move(building.calls);
        if (recording_ != Recording::Off) make_recorded_parts();
        plan_memory();
    }
    state_ = is_worth_it ? State::Ready : State::NotWorthIt;
}

/// A tuple of results that Python code reads as a whole is left to the call that makes it, which knows its class.
void Program::keep_tuples_of_python(Building& building) const {
    auto keep = [&](std::uint32_t number) {
        Plan& plan = building.plans[number];
        if (plan.result.kind == PreparedResult::Kind::Tuple) plan.is_prepared = false;
    };
    for_each_place(runner_.output_, keep, [](std::uint32_t) {});
    for (const Step& step : runner_.steps_)
        if (!building.plans[step.result].takes_item) for_each_register(step, keep);
    for (const Step& step : runner_.steps_) {
        // What the program holds at a failure may be the tuple.
        if (runner_.has_held_values_) keep(step.result);
        Plan& plan = building.plans[step.result];
        if (plan.takes_item)
            plan.is_prepared &= building.plans[runner_.operands_[step.first_operand].number].is_prepared;
    }
}

/// A tensor is released after the last step that reads any of the registers that it is in.
void Program::release_values(const Building& building) {
    constexpr std::uint32_t kStays = ~std::uint32_t{0};
    std::vector<std::uint32_t> last_use(building.calls->value_count(), 0);
    std::vector<std::uint32_t> released_at(runner_.registers_, kStays);
    for (const Step& step : runner_.steps_)
        for (std::uint32_t i = 0; i < step.releases; ++i)
            released_at[runner_.released_[step.first_release + i]] = step.result;
    std::vector<bool> is_in_register(last_use.size());
    auto note = [&](std::uint32_t value, std::uint32_t step) {
        last_use[value] = std::max(last_use[value], step);
        is_in_register[value] = true;
    };
    for (std::uint32_t i = 0; i < runner_.registers_; ++i) {
        note(building.value_of[i], released_at[i]);
        if (building.plans[i].is_prepared)
            for (std::uint32_t value : building.plans[i].result.values) note(value, released_at[i]);
    }
    // (An input may be in a register too, as a part of what an operation in place returns. Later steps may read it.)
    for (auto value = static_cast<std::uint32_t>(runner_.input_count()); value < last_use.size(); ++value)
        if (is_in_register[value] && last_use[value] != kStays) building.calls->release_after(last_use[value], value);
}

/// Steps of one part run in the same way: prepared or not, recordable on one device or not.
bool Program::begins_part(const Building& building, const Step& step) const {
    if (parts_.empty() || !building.plans[step.result].is_prepared || !parts_.back().is_prepared) return true;
    if (recording_ == Recording::Off || building.plans[step.result].takes_item) return false;
    const std::uint32_t first = parts_.back().first;
    const PreparedCalls& calls = *building.calls;
    const bool is_recorded = calls.why_not_recorded(step.result) == nullptr;
    if (is_recorded != (calls.why_not_recorded(first) == nullptr)) return true;
    return is_recorded && calls.device_of(step.result) != calls.device_of(first);
}

void Program::make_parts(const Building& building) {
    auto made_by_call = [&](std::uint32_t number) { return building.plans[number].is_prepared; };
    std::vector<bool> is_loaded(runner_.registers_), is_input_loaded(runner_.input_count());
    auto is_number = [&](std::uint32_t value) {
        return value < building.is_number.size() && building.is_number[value];
    };
    for (const Step& step : runner_.steps_) {
        const bool is_prepared = building.plans[step.result].is_prepared;
        if (begins_part(building, step))
            parts_.push_back({.first = step.result, .last = step.result, .is_prepared = is_prepared});
        Part& part = parts_.back();
        part.last = step.result + 1;
        // Of a tuple that an earlier part has made.
        if (building.plans[step.result].takes_item) part.read.push_back(building.value_of[step.result]);
        for (std::uint32_t i = 0; i < step.operands; ++i) {
            auto read = [&](std::uint32_t number) {
                if (is_prepared && is_number(building.value_of[number])) {
                    part.numbers.push_back(number);
                    return;
                }
                if (is_prepared && number < part.first) part.read.push_back(building.value_of[number]);
                if (made_by_call(number) == is_prepared) return;
                if (!is_prepared) {
                    part.needed.push_back(number);
                } else if (!is_loaded[number]) {
                    is_loaded[number] = true;
                    part.loaded.push_back(number);
                }
            };
            auto read_input = [&](std::uint32_t number) {
                if (!is_prepared) return;
                if (!is_number(number)) part.read.push_back(number);
                if (is_input_loaded[number]) return;
                is_input_loaded[number] = true;
                (is_number(number) ? number_inputs_ : loaded_inputs_).push_back(number);
            };
            for_each_place(runner_.operands_[step.first_operand + i], read, read_input);
        }
        for (std::uint32_t i = 0; i < step.releases; ++i)
            part.released_objects.push_back(runner_.released_[step.first_release + i]);
    }
    for (Part& part : parts_) {
        std::ranges::sort(part.read);
        part.read.erase(std::ranges::unique(part.read).begin(), part.read.end());
    }
    auto read = [&](std::uint32_t number) {
        if (made_by_call(number)) needed_outputs_.push_back(number);
    };
    for_each_place(runner_.output_, read, [](std::uint32_t) {});
}

void Program::make_recorded_parts() {
    for (Part& part : parts_) {
        if (!part.is_prepared || calls_->why_not_recorded(part.first) != nullptr) continue;
        const std::int32_t device = calls_->device_of(part.first);
        torch_room::Row row = torch_room::make_row(*calls_, part.first, part.last);
        if (device < 0 || row.calls < RecordedPart::kLeastCalls) continue;
        auto& pool = pools_[device];
        if (pool == nullptr)
            pool = std::make_unique<torch_room::RecordingPool>(device, recording_ == Recording::OverwrittenResults);
        part.recorded = std::make_unique<RecordedPart>(*calls_, std::move(row), *pool);
    }
}

/// The plan keeps tensors of certain sizes. A recording has memory of its own.
void Program::plan_memory() {
    if (!runner_.has_fixed_sizes_) return;
    for (const Part& part : parts_)
        if (part.is_prepared && part.recorded == nullptr) calls_->plan_memory(part.first, part.last);
}

std::string Program::why_not_recorded(const Part& part) const {
    if (part.recorded != nullptr) return part.recorded->reason();
    if (!part.is_prepared) return "it is called as it is, in Python";
    if (const char* reason = calls_->why_not_recorded(part.first)) return reason;
    return "it is too short: a recording takes " + std::to_string(RecordedPart::kLeastCalls) + " calls";
}

std::vector<Program::RecordingState> Program::recording_states() const {
    std::vector<RecordingState> states;
    bool is_any_recordable = false;
    for (const Part& part : parts_) {
        RecordingState state{.first = part.first, .last = part.last, .reason = why_not_recorded(part)};
        if (part.is_prepared) {
            is_any_recordable |= calls_->why_not_recorded(part.first) == nullptr && calls_->device_of(part.first) >= 0;
            for (std::uint32_t step = part.first; step < part.last; ++step) state.calls += calls_->call_count(step);
        }
        if (part.recorded != nullptr) {
            state.recordings = part.recorded->recordings();
            state.replays = part.recorded->replays();
        }
        states.push_back(std::move(state));
    }
    if (!is_any_recordable) states.clear();
    return states;
}

std::string Program::step_name(std::uint32_t number) const {
    const Step& step = runner_.steps_[number];
    if (PyUnicode_Check(step.target)) return std::string(utf8(step.target));
    Ref<> name = Ref<>::steal(PyObject_GetAttrString(step.target, "__name__"));
    if (!name) PyErr_Clear();
    return name && PyUnicode_Check(name.get()) ? std::string(utf8(name.get())) : "?";
}

// ---- Later runs
// ------------------------------------------------------------------------------------------------------

Ref<> Program::run_prepared(std::span<PyObject* const> inputs, Borrowed<> module,
                            std::optional<Failure>* failure) const {
    Registers registers(runner_.registers_, runner_.longest_call_);
    TensorValues values(calls_->value_count());
    for (std::uint32_t number : number_inputs_)
        if (!values.load_number(number, inputs[number])) return runner_.run_as_captured(inputs, module, failure);
    for (std::uint32_t number : loaded_inputs_) values.load(number, inputs[number]);
    for (const Part& part : parts_) {
        if (!load_numbers(part, registers, values, value_of_))
            return go_on_as_captured(part, inputs, module, registers, values, failure);
        const Step* failed = nullptr;
        if (run_part(part, inputs, module, registers, values, &failed)) continue;
        {
            ErrorAside aside;
            make_objects(failed, registers, values);
        }
        return runner_.fail(*failed, registers, failure);
    }
    for (std::uint32_t number : needed_outputs_)
        if (registers[number] == nullptr) make_object(number, registers, values);
    return runner_.value(runner_.output_, inputs, registers);
}

bool Program::load_numbers(const Part& part, Registers& registers, TensorValues& values,
                           const std::vector<std::uint32_t>& value_of) {
    return std::ranges::all_of(
        part.numbers, [&](std::uint32_t number) { return values.load_number(value_of[number], registers[number]); });
}

/// From a part that reads a number which no call takes: an int that is too large, or a number of another class.
Ref<> Program::go_on_as_captured(const Part& part, std::span<PyObject* const> inputs, Borrowed<> module,
                                 Registers& registers, TensorValues& values, std::optional<Failure>* failure) const {
    const Step* const first = &runner_.steps_[part.first];
    const Step* const end = runner_.steps_.data() + runner_.steps_.size();
    make_objects(first, registers, values);
    for (const Step* step = first; step != end; ++step) {
        // Of a tuple that has no object, because a prepared call has made it.
        const bool takes_item = plans_[step->result].takes_item;
        if (takes_item && registers[runner_.operands_[step->first_operand].number] == nullptr)
            make_object(step->result, registers, values);
        else if (!runner_.call(*step, inputs, module, registers))
            return runner_.fail(*step, registers, failure);
        for (std::uint32_t i = 0; i < step->releases; ++i)
            registers.release(runner_.released_[step->first_release + i]);
        calls_->release(step->result, values);
    }
    return runner_.value(runner_.output_, inputs, registers);
}

void Program::release_objects(const Part& part, Registers& registers) {
    for (std::uint32_t number : part.released_objects) registers.release(number);
}

bool Program::run_part(const Part& part, std::span<PyObject* const> inputs, Borrowed<> module, Registers& registers,
                       TensorValues& values, const Step** failed) const {
    if (part.is_prepared) {
        for (std::uint32_t number : part.loaded) values.load(value_of_[number], registers[number]);
        // The values own what the calls read, so that it is freed as soon as it is not needed.
        if (!runner_.has_held_values_) release_objects(part, registers);
        if (part.recorded != nullptr) {
            bool has_run = false;
            try {
                has_run = part.recorded->run(values);
            } catch (const PythonError&) {
                *failed = &runner_.steps_[part.first];
                return false;
            }
            if (has_run) {
                release_objects(part, registers);
                return true;
            }
        }
        if (auto raised = calls_->run(part.first, part.last, part.read, values)) {
            *failed = &runner_.steps_[*raised];
            return false;
        }
        release_objects(part, registers);
        return true;
    }
    const Step& step = runner_.steps_[part.first];
    for (std::uint32_t number : part.needed)
        if (registers[number] == nullptr) make_object(number, registers, values);
    if (!runner_.call(step, inputs, module, registers)) {
        *failed = &step;
        return false;
    }
    release_objects(part, registers);
    calls_->release(step.result, values);
    return true;
}

void Program::make_objects(const Step* end, Registers& registers, const TensorValues& values) const {
    for (const Step* step = runner_.steps_.data(); step != end; ++step)
        if (registers[step->result] == nullptr) make_object(step->result, registers, values);
}

/// For Python code: the object of a value. None if it is released.
void Program::make_object(std::uint32_t number, Registers& registers, const TensorValues& values) const {
    const PreparedResult& result = plans_[number].result;
    if (plans_[number].is_prepared && result.kind == PreparedResult::Kind::None)
        registers.set(number, Py_NewRef(Py_None));
    else if (values.has(value_of_[number]))
        registers.set(number, values.object(value_of_[number]).release());
}

}  // namespace stator::graph
