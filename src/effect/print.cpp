#include "base/text.h"
#include "effect/plan.h"

namespace stator {

namespace {

std::string name(std::int32_t number) {
    return number < 0 ? "nothing" : "r" + std::to_string(number);
}

std::string list_of(const PlanStep& step) {
    return "(" + joined(step.from, name) + ")";
}

/// `word(r0, r1)`, with the class behind it where it is not the plain one.
std::string container(const char* word, const PlanStep& step) {
    std::string text = word + list_of(step);
    if (step.object != nullptr) text += " of class " + type_name(reinterpret_cast<PyTypeObject*>(step.object));
    return text;
}

std::string pairs(const PlanStep& step) {
    std::string text;
    for (std::size_t i = 0; i + 1 < step.from.size(); i += 2)
        text += (i == 0 ? "" : ", ") + name(step.from[i]) + ": " + name(step.from[i + 1]);
    text = "dict(" + text + ")";
    if (step.object != nullptr) text += " of class " + type_name(reinterpret_cast<PyTypeObject*>(step.object));
    return text;
}

std::string function(const PlanStep& step) {
    static constexpr const char* kParts[] = {"globals",          "name",    "defaults",
                                             "keyword defaults", "closure", "annotations"};
    std::string text = "function " + std::string(utf8(reinterpret_cast<PyCodeObject*>(step.object)->co_qualname));
    for (std::size_t i = 0; i < step.from.size(); ++i)
        if (step.from[i] >= 0) text += std::string(i == 0 ? " with " : ", ") + kParts[i] + " " + name(step.from[i]);
    return text;
}

std::string generator_state(const PlanStep& step) {
    std::string text = name(step.from[0]) + " holds (";
    for (std::size_t i = 2; i < step.from.size(); ++i) text += (i == 2 ? "" : ", ") + name(step.from[i]);
    text += step.number < 0 ? ") and did not start" : ") and waits at " + std::to_string(step.number);
    return step.from[1] < 0 ? text : text + " handling " + name(step.from[1]);
}

std::string callee(PyObject* object) {
    return PyType_Check(object) ? type_name(reinterpret_cast<PyTypeObject*>(object)) : short_repr(object);
}

std::string print(const PlanStep& step) {
    auto from = [&](std::size_t i) { return name(step.from[i]); };
    /// A missing value means a deletion.
    auto assignment = [&](const std::string& target, std::size_t value) {
        return step.from[value] < 0 ? "delete " + target : target + " = " + from(value);
    };
    std::string to = step.to < 0 ? "" : name(step.to) + " = ";
    switch (step.op) {
        case PlanOp::Constant:
            return to + (step.number == 1 ? "new constant " : "constant ") + short_repr(step.object);
        case PlanOp::Output:
            return to + "output " + std::to_string(step.number);
        case PlanOp::Fetch:
            return to + "fetched " + std::to_string(step.number);
        case PlanOp::Tuple:
            return to + container("tuple", step);
        case PlanOp::List:
            return to + container("list", step);
        case PlanOp::Dict:
            return to + pairs(step);
        case PlanOp::Set:
            return to + container("set", step);
        case PlanOp::Frozenset:
            return to + container("frozenset", step);
        case PlanOp::Slice:
            return to + "slice" + list_of(step);
        case PlanOp::NewObject:
            return to + "new " + callee(step.object) + list_of(step);
        case PlanOp::Function:
            return to + function(step);
        case PlanOp::Cell:
            return to + "cell" + list_of(step);
        case PlanOp::Method:
            return to + "method" + list_of(step);
        case PlanOp::Call:
            return to + "call " + callee(step.object) + list_of(step);
        case PlanOp::CallNamed:
            return to + "call " + callee(step.object) + list_of(step) + " with keywords in the last";
        case PlanOp::Frame:
        case PlanOp::EnteredFrame:
            return to + (step.op == PlanOp::Frame ? "frame of " : "the frame of ") +
                   std::string(utf8(reinterpret_cast<PyCodeObject*>(step.object)->co_qualname)) + " at " +
                   std::to_string(step.number);
        case PlanOp::Traceback:
            return to + "traceback of " + from(0) + " at " + std::to_string(step.number) +
                   (step.from[1] < 0 ? "" : ", then " + from(1));
        case PlanOp::Generator:
            return to + "generator of " + from(0);
        case PlanOp::FillGenerator:
            return generator_state(step);
        case PlanOp::EndGenerator:
            return from(0) + " has ended";
        case PlanOp::Arithmetic: {
            auto op = static_cast<Expression::Op>(step.number);
            if (is_function(op)) return to + symbol(op) + "(" + from(0) + (takes_two(op) ? ", " + from(1) : "") + ")";
            if (!takes_two(op)) return to + symbol(op) + from(0);
            return to + from(0) + " " + symbol(op) + " " + from(1);
        }
        case PlanOp::SetAttribute:
            return assignment(from(0) + "." + std::string(utf8(step.object)), 1);
        case PlanOp::SetItem:
            return assignment(from(0) + "[" + from(1) + "]", 2);
        case PlanOp::Append:
            return from(0) + ".append(" + from(1) + ")";
        case PlanOp::Add:
            return from(0) + ".add(" + from(1) + ")";
        case PlanOp::SetCell:
            return assignment(from(0) + ".cell_contents", 1);
        case PlanOp::Return:
            return "return " + from(0);
    }
    return "?";
}

const char* name(PlanContinuation::Kind kind) {
    switch (kind) {
        case PlanContinuation::Kind::Forward:
            return "gives its result";
        case PlanContinuation::Kind::Initialise:
            return "initialises";
        case PlanContinuation::Kind::Drop:
            return "gives None";
        case PlanContinuation::Kind::Iterate:
            return "gives an iterator";
        case PlanContinuation::Kind::Next:
            return "gives an item";
        case PlanContinuation::Kind::Send:
            return "gives what it yields";
    }
    return "?";
}

std::string print(const PlanFrame& frame) {
    std::string text = "frame of " + std::string(utf8(frame.code->co_qualname)) + " at instruction " +
                       std::to_string(frame.instruction);
    if (frame.function >= 0) text += ", function " + name(frame.function);
    if (frame.runs_callbacks) text += ", runs callbacks";
    if (frame.handled_exception != PlanFrame::kUnchanged) text += ", handles " + name(frame.handled_exception);
    if (frame.generator >= 0) text += ", generator " + name(frame.generator);
    for (const PlanContinuation& continuation : frame.continuations) {
        text += std::string(", ") + name(continuation.kind);
        if (continuation.from >= 0) text += " " + name(continuation.from);
    }
    for (const PlanFrame::Slot& slot : frame.slots)
        text += "\n  " + std::string(utf8(PyTuple_GET_ITEM(frame.code->co_localsplusnames, slot.slot))) + " = " +
                name(slot.from);
    if (!frame.stack.empty()) text += "\n  stack: " + joined(frame.stack, [](std::int32_t from) { return name(from); });
    return text;
}

}  // namespace

std::string print(const Plan& plan) {
    std::string text = joined(
        plan.steps, [](const PlanStep& step) { return print(step); }, "\n");
    if (plan.handled_exception != PlanFrame::kUnchanged) text += "\nhandles " + name(plan.handled_exception);
    for (const PlanFrame& frame : plan.frames) text += (text.empty() ? "" : "\n") + print(frame);
    return text;
}

}  // namespace stator
