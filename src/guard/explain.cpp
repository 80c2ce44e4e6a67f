/// Guard programs as text: guards, steps, and the reason why a check failed.
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "guard/state.h"
#include "torch/wrappers.h"

namespace stator {

namespace {

constexpr const char* kStepWords[] = {
#define STEP_OP(group, name, words) words,
#include "guard/step_ops.def"
#undef STEP_OP
};

std::string a_kind_of(PyObject* object) {
    return object == nullptr ? "nothing" : "of type " + type_name(Py_TYPE(object));
}

/// The current keys or elements as a tuple.
std::string contents(PyObject* container) {
    Ref<> items = Ref<>::steal(PyDict_CheckExact(container) || PyODict_CheckExact(container) ||
                                       PySet_CheckExact(container) || PyFrozenSet_CheckExact(container)
                                   ? PySequence_Tuple(container)
                                   : nullptr);
    if (!items) PyErr_Clear();
    return items ? short_repr(items.get()) : "others";
}

std::string size_text(PyObject* container) {
    Py_ssize_t size = PyTuple_Check(container)                                ? PyTuple_GET_SIZE(container)
                      : PyList_Check(container)                               ? PyList_GET_SIZE(container)
                      : PyDict_Check(container)                               ? PyDict_GET_SIZE(container)
                      : PyObject_TypeCheck(container, cpython::deque_class()) ? cpython::deque_length(container)
                      : PyAnySet_Check(container)                             ? PySet_GET_SIZE(container)
                                                                              : -1;
    return size < 0 ? "no length that could be compared" : std::to_string(size) + (size == 1 ? " item" : " items");
}

std::string explain_function(const std::string& source, PyObject* object, PyObject* code) {
    std::string was(utf8(reinterpret_cast<PyCodeObject*>(code)->co_qualname));
    if (!PyFunction_Check(object)) return source + " is " + a_kind_of(object) + ", was the function " + was;
    auto* now = cpython::code_of(reinterpret_cast<PyFunctionObject*>(object));
    std::string is(utf8(now->co_qualname));
    if (reinterpret_cast<PyObject*>(now) == code) return source + " is " + is + " with different globals than before";
    return is == was ? source + " is " + is + " with different code than before"
                     : source + " is the function " + is + ", was " + was;
}

}  // namespace

std::string GuardProgram::State::print_place(std::int32_t place) const {
    // The printer of sources follows parents, so the chain is recreated for printing.
    std::vector<std::int32_t> path;
    for (std::int32_t at = place; at >= 0; at = places[at].parent) path.push_back(at);
    std::vector<Source> chain(path.size());
    for (std::size_t i = 0; i < path.size(); ++i) {
        const Place& copied = places[path[i]];
        chain[i].access = copied.access;
        chain[i].number = copied.number;
        chain[i].key = copied.key;
        chain[i].object = copied.object;
        chain[i].parent = i + 1 < path.size() ? &chain[i + 1] : nullptr;
    }
    return stator::print(chain.front());
}

std::string GuardProgram::State::print_expression(std::int64_t index) const {
    const CheckedCondition& condition = expressions[static_cast<std::size_t>(index)];
    if (condition.by_python) return condition.by_python->text;
    return stator::print(condition.terms, [this](const Term& term) {
        std::string place = print_place(term.place);
        if (term.dimension >= 0) place += torch_room::print_layout_number(static_cast<std::size_t>(term.dimension));
        return place;
    });
}

std::string GuardProgram::State::print_fact(const Fact& fact) const {
    if (fact.kind == GuardKind::Expression) return print_expression(fact.number);
    return guard_text(fact.kind, print_place(fact.place), fact.expected, fact.number,
                      fact.other < 0 ? "" : print_place(fact.other), fact.tensor < 0 ? nullptr : &tensors[fact.tensor]);
}

std::string GuardProgram::State::print_step(std::size_t index) const {
    const Step& step = steps[index];
    std::string text = kStepWords[static_cast<int>(step.op)];
    if (is_fetch(step.op))
        return text + " r" + std::to_string(step.to) + " = " + print_place(step.to) + (step.absent ? " (absent)" : "");
    if (fact_of_step[index] >= 0)
        return text + " r" + std::to_string(step.from) + ": " + print_fact(facts[fact_of_step[index]]);
    std::int32_t about = step.to >= 0 ? step.to : step.from;
    return about < 0 ? text : text + " r" + std::to_string(about) + ": " + print_place(about);
}

std::string GuardProgram::State::explain_failure() const {
    if (failed == kInterrupted) return "its guards were checked again by code that the check itself ran";
    const Step& step = steps[failed];
    PyObject* object = step.from < 0 ? nullptr : registers[step.from];
    if (is_fetch(step.op)) {
        std::string place = print_place(step.to);
        if (step.absent) return place + " exists, did not before";
        if (step.from < 0) return place + " is unbound, was not before";
        return place + " does not exist any more: " + print_place(step.from) + " is " +
               a_kind_of(object == nullptr && step.op == StepOp::StringItem ? registers[step.number] : object);
    }
    if (step.op == StepOp::AllDistinct) {
        auto [first, second] = distinct->clash(registers.data());
        return print_place(distinct->register_at(second)) + " is " + print_place(distinct->register_at(first)) +
               ", was another object";
    }
    if (fact_of_step[failed] < 0) {
        std::string place = print_place(step.op == StepOp::MakeInstanceDict ? step.to : step.from);
        switch (step.op) {
            case StepOp::SafeKeys:
                return place + " has keys that can't be compared without running their code";
            case StepOp::EnterClass:
                return place + " is " + a_kind_of(object) + ", was a class";
            case StepOp::MakeInstanceDict:
                return place + " does not exist any more";
            default:
                return place + " is " + a_kind_of(object) + ", was a dict";
        }
    }
    const Fact& fact = facts[fact_of_step[failed]];
    std::string place = print_place(fact.place);
    switch (fact.kind) {
        case GuardKind::Type:
            return "type of " + place + " is " + type_name(Py_TYPE(object)) + ", was " +
                   type_name(reinterpret_cast<PyTypeObject*>(fact.expected));
        case GuardKind::Identity:
            if (Py_TYPE(object) != Py_TYPE(fact.expected))
                return place + " is " + short_repr(object) + ", was " + short_repr(fact.expected);
            return place + " is another " + type_name(Py_TYPE(object)) + " than before";
        case GuardKind::Constant:
            if (short_repr(object) == short_repr(fact.expected))
                return place + " is another " + type_name(Py_TYPE(object)) + " than before";
            return place + " is " + short_repr(object) + ", was " + short_repr(fact.expected);
        case GuardKind::Function:
            return explain_function(place, object, fact.expected);
        case GuardKind::Length:
            return place + " has " + size_text(object) + ", had " + std::to_string(fact.number);
        case GuardKind::HasNoKey:
            return place + " has the key " + short_repr(fact.expected) + ", had not";
        case GuardKind::Keys:
            return "keys of " + place + " are " + contents(object) + ", were " + short_repr(fact.expected);
        case GuardKind::Elements:
            return "elements of " + place + " are " + contents(object) + ", were " + short_repr(step.object);
        case GuardKind::Tensor:
            return place + ": " + torch_room::explain_mismatch(object, tensors[fact.tensor]);
        case GuardKind::Autograd:
            return place + " is " + print_autograd_state(pack(torch_room::read_autograd_state(object))) + ", was " +
                   print_autograd_state(fact.number);
        case GuardKind::Offset:
            return place + " has storage offset " + std::to_string(torch_room::storage_offset(object)) + ", was " +
                   std::to_string(fact.number);
        case GuardKind::Subclass:
            if (fact.number == torch_room::kFlattened)
                return place + " does not flatten to " + short_repr(fact.expected) + " any more";
            return place + (fact.number == 1 ? " is no" : " is a") + " subclass of " + short_repr(fact.expected) +
                   (fact.number == 1 ? " any more" : " now");
        case GuardKind::Same:
            return place + " is not " + print_place(fact.other) + ", was the same object";
        case GuardKind::Different:
            return place + " is " + print_place(fact.other) + ", was another object";
        case GuardKind::Expression:
            return print_expression(fact.number) + " is not true any more: " + place + " is " + short_repr(object);
        case GuardKind::Present:
        case GuardKind::Absent:
            break;
    }
    return print_fact(fact) + ": does not hold any more";
}

std::string GuardProgram::State::closure_variable_of_failure() const {
    if (failed == kInterrupted || fact_of_step[failed] < 0) return "";
    const std::int32_t place = facts[fact_of_step[failed]].place;
    std::int32_t contents = place;
    while (contents >= 0 && places[contents].access != Access::CellContents) contents = places[contents].parent;
    const std::int32_t cell = contents < 0 ? -1 : places[contents].parent;
    if (cell < 0 || places[cell].access != Access::ClosureCell || places[cell].parent < 0) return "";
    PyObject* function = registers[places[cell].parent];
    if (function == nullptr || !PyFunction_Check(function)) return "";
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    Ref<> names = checked(PyCode_GetFreevars(code));
    if (places[cell].number >= PyTuple_GET_SIZE(names.get())) return "";
    const std::string name(utf8(PyTuple_GET_ITEM(names.get(), places[cell].number)));
    return " (closure variable " + name + print_place(place).substr(print_place(contents).size()) + ")";
}

}  // namespace stator
