#include "guard/quick_builder.h"

#include <algorithm>

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

std::uintptr_t address(const void* object) {
    return reinterpret_cast<std::uintptr_t>(object);
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
    tensors_.add(torch_room::expect_again(state_.registers[step.from], shared(state_.tensors[step.number])), step.from,
                 known.level);
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
        dicts_.add({enter.object, enter.version}, enter.from, level);
    } else if (enter.op == StepOp::EnterClass) {
        settle(enter.from, &enter);
        level = known_[enter.from].level;
        auto* type = reinterpret_cast<PyTypeObject*>(enter.object);
        classes_.add({type, enter.version}, enter.from, level);
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
        instances_.add({object, known.type, offset, enter.object, enter.version}, enter.from, known.level);
        return;
    }
    // The offset of its dict is unknown without its class.
    take_step({.op = StepOp::InstanceDict, .to = enter.to, .from = enter.from}, -1);
    take_step({.op = StepOp::Identity, .from = enter.to, .object = enter.object}, -1);
    dicts_.add({enter.object, enter.version}, enter.to, known.level);
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
    steps_.add(taken, origin, level);
    if (step.to >= 0) known_[step.to] = {Standing::Unknown, level};
}

void QuickCheckBuilder::write() {
    for (std::size_t i = 0; i < known_.size(); ++i)
        if (known_[i].type_pending)
            typed_.add({state_.registers[i], known_[i].type}, static_cast<std::int32_t>(i), known_[i].level);
    QuickCheck made;
    QuickCheck::Parts& all = made.parts_;
    const std::size_t levels = std::max(
        {steps_.levels(), instances_.levels(), typed_.levels(), dicts_.levels(), classes_.levels(), tensors_.levels()});
    made.levels_.reserve(levels);
    all.steps.reserve(steps_.size() + levels);
    all.instances.reserve(instances_.size());
    all.typed.reserve(typed_.size());
    all.dicts.reserve(dicts_.size());
    all.classes.reserve(classes_.size());
    all.tensors.reserve(tensors_.size());
    // What the same level, or one before it, compares of the same object is left out: a function or dict that many
    // modules share is compared once. (A function that has the same code has the same globals: both comparisons held.)
    PairsSeen functions(steps_.size()), typed(typed_.size()), dicts(dicts_.size()), classes(classes_.size());
    for (std::size_t i = 0; i < levels; ++i) {
        const std::uint32_t before = all.steps.size();
        steps_.visit(i, [&](const Step& step, std::int32_t place) {
            const bool is_lasting = step.op == StepOp::FunctionCode && known_[step.from].standing == Standing::Lasting;
            if (!is_lasting || functions.add(address(state_.registers[step.from]), address(step.object)))
                all.steps.add(step, place);
        });
        std::int32_t first_step = -1;
        if (all.steps.size() > before) {
            first_step = static_cast<std::int32_t>(before);
            all.steps.add({.op = StepOp::Done}, -1);
        }
        instances_.visit(i, [&](const auto& item, std::int32_t place) { all.instances.add(item, place); });
        typed_.visit(i, [&](const QuickCheck::Typed& item, std::int32_t place) {
            if (typed.add(address(item.object), address(item.type))) all.typed.add(item, place);
        });
        dicts_.visit(i, [&](const QuickCheck::Dict& item, std::int32_t place) {
            if (dicts.add(address(item.dict), item.version)) all.dicts.add(item, place);
        });
        classes_.visit(i, [&](const QuickCheck::Class& item, std::int32_t place) {
            if (classes.add(address(item.type), item.version)) all.classes.add(item, place);
        });
        tensors_.visit(i, [&](const auto& item, std::int32_t place) { all.tensors.add(item, place); });
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
