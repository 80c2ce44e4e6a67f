#include <algorithm>

#include "base/check.h"
#include "base/python_error.h"
#include "base/stack_room.h"
#include "effect/plan.h"

namespace stator {

namespace {

/// The fewest and the most registers that an operation reads, and which of them may be missing (-1).
struct Reads {
    std::size_t least, most;
    std::size_t optional_from;
};
constexpr std::size_t kAny = static_cast<std::size_t>(-1);

Reads reads_of(PlanOp op) {
    switch (op) {
        case PlanOp::Constant:
        case PlanOp::Output:
        case PlanOp::Fetch:
            return {0, 0, 0};
        case PlanOp::Tuple:
        case PlanOp::List:
        case PlanOp::Dict:
        case PlanOp::Set:
        case PlanOp::Frozenset:
        case PlanOp::NewObject:
        case PlanOp::Call:
            return {0, kAny, kAny};
        case PlanOp::Slice:
            return {3, 3, 3};
        case PlanOp::Function:
            return {6, 6, 1};
        case PlanOp::Cell:
            return {0, 1, 1};
        case PlanOp::Method:
        case PlanOp::Append:
        case PlanOp::Add:
            return {2, 2, 2};
        case PlanOp::SetAttribute:
        case PlanOp::SetCell:
            return {2, 2, 1};
        case PlanOp::SetItem:
            return {3, 3, 2};
        case PlanOp::Arithmetic:
            return {1, 2, 2};
        case PlanOp::FillGenerator:
            return {2, kAny, 1};
        case PlanOp::CallNamed:
            return {1, kAny, kAny};
        case PlanOp::Traceback:
            return {2, 2, 1};
        case PlanOp::Frame:
        case PlanOp::EnteredFrame:
        case PlanOp::Generator:
        case PlanOp::EndGenerator:
        case PlanOp::Return:
            return {1, 1, 1};
    }
    return {0, 0, 0};
}

bool makes_something(PlanOp op) {
    return op < PlanOp::SetAttribute;
}

bool needs_object(PlanOp op) {
    return op == PlanOp::Constant || op == PlanOp::NewObject || op == PlanOp::Function || op == PlanOp::Call ||
           op == PlanOp::CallNamed || op == PlanOp::Frame || op == PlanOp::EnteredFrame || op == PlanOp::SetAttribute;
}

void check_step(const PlanStep& step, std::vector<bool>& filled) {
    Reads reads = reads_of(step.op);
    STATOR_CHECK(step.from.size() >= reads.least && step.from.size() <= reads.most,
                 "a plan's step reads the wrong number of registers");
    STATOR_CHECK(step.op != PlanOp::Dict || step.from.size() % 2 == 0, "a dict needs pairs of keys and values");
    STATOR_CHECK(!needs_object(step.op) || step.object != nullptr, "a plan's step lacks its object");
    for (std::size_t i = 0; i < step.from.size(); ++i) {
        std::int32_t from = step.from[i];
        bool is_filled = from >= 0 && static_cast<std::size_t>(from) < filled.size() && filled[from];
        STATOR_CHECK(is_filled || (from == -1 && i >= reads.optional_from),
                     "a plan reads a register before it is filled");
    }
    STATOR_CHECK((step.to >= 0) == makes_something(step.op),
                 "a plan's step lacks a result register, or has one that it does not fill");
    if (step.to < 0) return;
    STATOR_CHECK(!filled[step.to], "a plan fills a register twice");
    filled[step.to] = true;
}

/// A plan that only returns existing objects, or a tuple of them, needs no registers.
void find_shape(Plan& plan) {
    auto is_part = [](PlanOp op) { return op == PlanOp::Constant || op == PlanOp::Output || op == PlanOp::Fetch; };
    if (plan.steps.empty() || plan.steps.back().op != PlanOp::Return) return;
    std::size_t leaves = 0;
    std::vector<const PlanStep*> filled_by(plan.registers);
    for (const PlanStep& step : plan.steps) {
        if (step.to >= 0) filled_by[step.to] = &step;
        leaves += is_part(step.op);
    }
    auto add_part = [&](std::int32_t from) {
        const PlanStep& step = *filled_by[from];
        plan.parts.push_back({step.op, step.number, step.object});
    };
    const PlanStep& result = *filled_by[plan.steps.back().from[0]];
    if (leaves + 1 == plan.steps.size()) {
        plan.shape = Plan::Shape::OnePart;
        add_part(plan.steps.back().from[0]);
    } else if (leaves + 2 == plan.steps.size() && result.op == PlanOp::Tuple && result.object == nullptr) {
        // (A new constant is created once, even if the tuple contains it twice.)
        std::vector<std::int32_t> made;
        for (std::int32_t from : result.from)
            if (filled_by[from]->op == PlanOp::Constant && filled_by[from]->number == 1) made.push_back(from);
        std::ranges::sort(made);
        if (std::ranges::adjacent_find(made) != made.end()) return;
        plan.shape = Plan::Shape::TupleOfParts;
        for (std::int32_t from : result.from) add_part(from);
    }
}

}  // namespace

int PlanBuilder::known(const void* value) const {
    if (is_stack_low()) throw NestedTooDeeply();
    auto found = registers_.find(value);
    return found == registers_.end() ? -1 : found->second;
}

int PlanBuilder::reserve(const void* value) {
    int number = plan_.registers++;
    bool is_new = registers_.emplace(value, number).second;
    STATOR_CHECK(is_new, "a value is rebuilt twice");
    return number;
}

int PlanBuilder::add(PlanOp op, std::vector<std::int32_t> from, Borrowed<> object, int number) {
    int to = makes_something(op) ? plan_.registers++ : -1;
    add_to(to, op, std::move(from), object, number);
    return to;
}

void PlanBuilder::add_to(int to, PlanOp op, std::vector<std::int32_t> from, Borrowed<> object, int number) {
    if (object != nullptr) plan_.kept.push_back(Ref<>::share(object));
    if (op == PlanOp::EnteredFrame) plan_.uses_frame = true;
    plan_.steps.push_back({op, to, number, object, std::move(from)});
}

void PlanBuilder::add_at_end(PlanOp op, std::vector<std::int32_t> from, Borrowed<> object) {
    int to = makes_something(op) ? plan_.registers++ : -1;
    if (object != nullptr) plan_.kept.push_back(Ref<>::share(object));
    at_end_.push_back({op, to, 0, object, std::move(from)});
}

int PlanBuilder::constant(Borrowed<> object, bool is_made_anew) {
    if (int found = known(object.get()); found >= 0) return found;
    int to = reserve(object.get());
    add_to(to, PlanOp::Constant, {}, object, is_made_anew ? 1 : 0);
    return to;
}

int PlanBuilder::output(const void* node) {
    if (int found = known(node); found >= 0) return found;
    int to = reserve(node);
    add_to(to, PlanOp::Output, {}, nullptr, static_cast<int>(outputs_.size()));
    outputs_.push_back(node);
    return to;
}

int PlanBuilder::fetch(Source* source) {
    if (int found = known(source); found >= 0) return found;
    int to = reserve(source);
    add_to(to, PlanOp::Fetch, {}, nullptr, static_cast<int>(fetched_.size()));
    fetched_.push_back(source);
    return to;
}

int PlanBuilder::arithmetic(const Expression& expression) {
    if (expression.op == Expression::Op::Source) return fetch(expression.source);
    if (int found = known(&expression); found >= 0) return found;
    std::vector<std::int32_t> from;
    for (const Expression* operand : {expression.left, expression.right})
        if (operand != nullptr) from.push_back(arithmetic(*operand));
    int to = reserve(&expression);
    if (expression.op == Expression::Op::Constant) {
        add_to(to, PlanOp::Constant, {}, expression.constant.object().get());
    } else {
        add_to(to, PlanOp::Arithmetic, std::move(from), nullptr, static_cast<int>(expression.op));
    }
    return to;
}

void PlanBuilder::add_frame(PlanFrame frame) {
    plan_.kept.push_back(Ref<>::share(reinterpret_cast<PyObject*>(frame.code)));
    plan_.frames.push_back(std::move(frame));
}

void PlanBuilder::add_dropped(DroppedObject::Place place, Source* source, Borrowed<> key) {
    if (key != nullptr) plan_.kept.push_back(Ref<>::share(key));
    plan_.dropped.push_back({place, static_cast<std::int32_t>(fetched_.size()), key.get()});
    fetched_.push_back(source);
}

namespace {

void check_frame(const PlanFrame& frame, const std::vector<bool>& filled) {
    auto check = [&](std::int32_t from) {
        STATOR_CHECK(from == -1 || filled.at(static_cast<std::size_t>(from)), "a frame reads an empty register");
    };
    check(frame.function);
    check(frame.generator);
    if (frame.handled_exception != PlanFrame::kUnchanged) check(frame.handled_exception);
    for (const PlanFrame::Slot& slot : frame.slots) check(slot.from);
    for (std::int32_t from : frame.stack) check(from);
    for (const PlanContinuation& continuation : frame.continuations) check(continuation.from);
}

}  // namespace

Plan PlanBuilder::finish() && {
    bool returns = !plan_.steps.empty() && plan_.steps.back().op == PlanOp::Return;
    plan_.steps.insert(plan_.steps.end() - (returns ? 1 : 0), at_end_.begin(), at_end_.end());
    std::vector<bool> filled(plan_.registers);
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
        check_step(plan_.steps[i], filled);
        STATOR_CHECK(plan_.steps[i].op != PlanOp::Return || i + 1 == plan_.steps.size(),
                     "a plan continues after its return");
    }
    for (const PlanFrame& frame : plan_.frames) check_frame(frame, filled);
    if (plan_.handled_exception == PlanFrame::kUnchanged) find_shape(plan_);
    return std::move(plan_);
}

void visit(const Plan& plan, const std::function<void(PyObject*)>& visitor) {
    for (const Ref<>& object : plan.kept) visitor(object.get());
}

}  // namespace stator
