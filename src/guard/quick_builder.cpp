#include "guard/quick_builder.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/check.h"
#include "cpython/dict_watch.h"
#include "cpython/objects.h"
#include "cpython/versions.h"
#include "guard/state.h"

namespace stator {

namespace {

/// Whether `number` is a register that the step reads too.
bool reads_number(StepOp op) {
    return op == StepOp::StringItem || op == StepOp::NoStringKey || op == StepOp::Same || op == StepOp::Different;
}

/// How many different tensor checks are shared: layers repeat, and shared checks stay in the cache.
constexpr std::size_t kSharedChecks = 16;

}  // namespace

void QuickCheckPolicy::succeeded(GuardProgram::State& state) {
    if (is_built_) {
        is_built_ = false;
        state.quick.forget();
        repeated_ = 0;
        if (state.quick.hits() >= kPaysOff)
            patience_ = 1;
        else
            be_patient();
    }
    if (state.walked != walked_before_) {
        walked_before_ = state.walked;
        repeated_ = 0;
        return;
    }
    if (++repeated_ < patience_ || state.running > 1) return;
    repeated_ = 0;
    if (give_versions(state)) {
        walked_before_.clear();  // the next run executes the same blocks once more, and the one after that does not
        return;
    }
    is_built_ = QuickCheckBuilder(state).build();
    if (!is_built_) be_patient();
}

bool QuickCheckPolicy::give_versions(GuardProgram::State& state) {
    bool given = false;
    for (std::int32_t index : state.walked) {
        const Step& enter = state.steps[index];
        if (enter.op != StepOp::EnterInstanceDict && enter.op != StepOp::MakeInstanceDict) continue;
        PyObject* dict = state.registers[enter.to];
        if (dict != nullptr && cpython::dict_version(dict) == 0) given |= cpython::make_versioned(dict);
    }
    return given;
}

QuickCheckBuilder::QuickCheckBuilder(State& state)
    : state_(state), known_(state.registers.size()), is_walked_(state.steps.size()) {
    for (std::int32_t enter : state.walked) is_walked_[enter] = true;
    for (std::size_t i = 0; i < known_.size(); ++i)
        if (state.places[i].access == Access::Pinned) known_[i].standing = Standing::Lasting;
}

bool QuickCheckBuilder::build() {
    if (!follow() || skipped_ <= state_.walked.size()) return false;
    write();
    return true;
}

bool QuickCheckBuilder::follow() {
    for (std::int32_t i = 0; state_.steps[i].op != StepOp::Done; ++i) {
        Step& step = state_.steps[i];
        step.relied_on = false;
        switch (step.op) {
            case StepOp::EnterDict:
            case StepOp::EnterInstanceDict:
            case StepOp::MakeInstanceDict:
            case StepOp::EnterClass:
                if (is_walked_[i]) {
                    walk_block(i);
                } else {
                    skip_block(i);
                    i = step.number;
                }
                break;
            case StepOp::LeaveDict:
            case StepOp::LeaveClass:
            case StepOp::AllDistinct:
                break;
            case StepOp::Type:
                follow_type(i);
                break;
            case StepOp::Tensor:
                if (torch_room::may_run_python(state_.tensors[step.number])) return false;
                follow_tensor(i);
                break;
            case StepOp::Identity:
                if (known_[step.from].standing == Standing::Unknown) take_step(step, i);
                break;
            case StepOp::Same:
            case StepOp::Different:
                if (known_[step.from].standing == Standing::Unknown ||
                    known_[step.number].standing == Standing::Unknown)
                    take_step(step, i);
                break;
            default:
                take_step(step, i);
        }
    }
    return true;
}

void QuickCheckBuilder::follow_type(std::int32_t index) {
    const Step& step = state_.steps[index];
    Known& known = known_[step.from];
    known.type = reinterpret_cast<PyTypeObject*>(step.object);
    if (known.standing == Standing::Unknown)
        take_step(step, index);
    else
        known.type_pending = true;
}

void QuickCheckBuilder::follow_tensor(std::int32_t index) {
    const Step& step = state_.steps[index];
    const Known& known = known_[step.from];
    if (known.standing == Standing::Unknown) return take_step(step, index);
    at(known.level)
        .tensors.add(torch_room::expect_again(state_.registers[step.from], shared(state_.tensors[step.number])),
                     step.from);
}

const torch_room::TensorCheck& QuickCheckBuilder::shared(const torch_room::TensorCheck& check) {
    for (const torch_room::TensorCheck* other : different_checks_)
        if (*other == check) return *other;
    if (different_checks_.size() < kSharedChecks) different_checks_.push_back(&check);
    return check;
}

void QuickCheckBuilder::walk_block(std::int32_t enter) {
    // An Enter that remembers nothing never skips.
    Step step = state_.steps[enter];
    step.object = nullptr;
    step.version = 0;
    take_step(step, enter);
}

void QuickCheckBuilder::skip_block(std::int32_t index) {
    Step& enter = state_.steps[index];
    enter.relied_on = true;
    ++skipped_;
    std::int32_t level;
    if (enter.op == StepOp::EnterDict) {
        settle(enter.from, &enter);
        level = known_[enter.from].level;
        at(level).dicts.add({enter.object, enter.version}, enter.from);
    } else if (enter.op == StepOp::EnterClass) {
        settle(enter.from, &enter);
        level = known_[enter.from].level;
        auto* type = reinterpret_cast<PyTypeObject*>(enter.object);
        at(level).classes.add({type, enter.version}, enter.from);
    } else {
        settle(enter.from, nullptr);
        level = known_[enter.from].level;
        expect_instance(enter);
        known_[enter.to] = {Standing::Lasting, level + 1};
    }
    for (std::int32_t i = index + 1; i < enter.number; ++i) {
        const Step& step = state_.steps[i];
        if (is_fetch(step.op)) known_[step.to] = {Standing::Lasting, level + 1};
    }
}

void QuickCheckBuilder::expect_instance(const Step& enter) {
    Known& known = known_[enter.from];
    PyObject* object = state_.registers[enter.from];
    Py_ssize_t offset = cpython::dict_offset(object);
    if (known.type != nullptr && known.type == Py_TYPE(object) && offset != 0) {
        known.type_pending = false;
        at(known.level).instances.add({object, known.type, offset, enter.object, enter.version}, enter.from);
        return;
    }
    // The offset of its dict is unknown without its class.
    take_step({.op = StepOp::InstanceDict, .to = enter.to, .from = enter.from}, -1);
    take_step({.op = StepOp::Identity, .from = enter.to, .object = enter.object}, -1);
    at(known.level).dicts.add({enter.object, enter.version}, enter.to);
}

void QuickCheckBuilder::settle(std::int32_t place, const Step* kind) {
    Known& known = known_[place];
    if (known.standing == Standing::Lasting) return;
    if (known.standing == Standing::Unknown)
        take_step({.op = StepOp::Identity, .from = place, .object = state_.registers[place]}, -1);
    known.standing = Standing::Here;
    // The address may hold another object now. An Enter without a recorded state checks that it is of the right kind.
    if (kind != nullptr) take_step({.op = kind->op, .from = place}, -1);
}

std::int32_t QuickCheckBuilder::level_of(const Step& step) const {
    std::int32_t level = step.from < 0 ? 0 : known_[step.from].level;
    if (reads_number(step.op) && step.number >= 0) level = std::max(level, known_[step.number].level);
    if (step.op == StepOp::Expression)
        for (const Term& term : state_.expressions[step.number].terms)
            if (term.place >= 0) level = std::max(level, known_[term.place].level);
    return level;
}

void QuickCheckBuilder::take_step(const Step& step, std::int32_t origin) {
    std::int32_t level = level_of(step);
    Step taken = step;
    taken.relied_on = false;
    at(level).steps.add(taken, origin);
    if (step.to >= 0) known_[step.to] = {Standing::Unknown, level};
}

void QuickCheckBuilder::drop_repetitions() {
    std::set<std::tuple<const void*, std::uint64_t>> dicts, classes;
    std::set<std::tuple<const void*, const void*>> typed;
    std::set<std::tuple<const void*, const void*, const void*>> functions;
    for (QuickCheck::Parts& level : levels_) {
        level.steps.keep_if([&](const Step& step) {
            if (step.op != StepOp::FunctionCode || known_[step.from].standing != Standing::Lasting) return true;
            return functions.emplace(state_.registers[step.from], step.object, step.extra).second;
        });
        level.typed.keep_if(
            [&](const QuickCheck::Typed& item) { return typed.emplace(item.object, item.type).second; });
        level.dicts.keep_if(
            [&](const QuickCheck::Dict& item) { return dicts.emplace(item.dict, item.version).second; });
        level.classes.keep_if(
            [&](const QuickCheck::Class& item) { return classes.emplace(item.type, item.version).second; });
    }
}

QuickCheck::Parts& QuickCheckBuilder::at(std::int32_t level) {
    if (static_cast<std::size_t>(level) >= levels_.size()) levels_.resize(level + 1);
    return levels_[level];
}

void QuickCheckBuilder::write() {
    for (std::size_t i = 0; i < known_.size(); ++i)
        if (known_[i].type_pending)
            at(known_[i].level).typed.add({state_.registers[i], known_[i].type}, static_cast<std::int32_t>(i));
    drop_repetitions();
    QuickCheck made;
    QuickCheck::Parts& all = made.parts_;
    for (QuickCheck::Parts& level : levels_) {
        std::int32_t first_step = -1;
        if (level.steps.size() > 0) {
            first_step = static_cast<std::int32_t>(all.steps.size());
            level.steps.add({.op = StepOp::Done}, -1);
        }
        all.steps.append(level.steps);
        all.instances.append(level.instances);
        all.typed.append(level.typed);
        all.dicts.append(level.dicts);
        all.classes.append(level.classes);
        all.tensors.append(level.tensors);
        made.levels_.push_back({first_step, all.instances.size(), all.typed.size(), all.dicts.size(),
                                all.classes.size(), all.tensors.size()});
    }
    if (state_.distinct)
        for (std::size_t i = 0; i < state_.distinct->size(); ++i)
            if (known_[state_.distinct->register_at(i)].standing != Standing::Lasting)
                made.distinct_.push_back(static_cast<std::int32_t>(i));
    for (std::size_t i = 0; i < state_.fetched_from.size(); ++i)
        if (known_[state_.fetched_from[i]].standing != Standing::Lasting)
            made.fetched_.push_back(static_cast<std::int32_t>(i));
    for (const QuickCheck::Instance& instance : all.instances.items) cpython::watch_dict(instance.dict);
    for (const QuickCheck::Dict& dict : all.dicts.items) cpython::watch_dict(dict.dict);
    made.is_there_ = true;
    state_.quick = std::move(made);
}

}  // namespace stator
