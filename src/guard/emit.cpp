#include <Python.h>
#include <structmember.h>

#include <limits>

#include "base/check.h"
#include "cpython/objects.h"
#include "guard/build.h"
#include "guard/set_entries.h"

namespace stator {

namespace {

std::int32_t narrow(std::int64_t number) {
    STATOR_CHECK(number >= 0 && number <= std::numeric_limits<std::int32_t>::max(), "a guard's number is out of range");
    return static_cast<std::int32_t>(number);
}

/// Whether the dict that was seen has this very object as a key, and not only an equal one.
bool holds_key_itself(const Source& source) {
    PyObject* dict = source.parent->object;
    if (dict == nullptr || !PyDict_Check(dict)) return false;
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value);)
        if (key == source.key) return true;
    return false;
}

StepOp item_step(PyObject* container) {
    if (PyTuple_Check(container)) return StepOp::TupleItem;
    if (PyList_Check(container)) return StepOp::ListItem;
    STATOR_CHECK(cpython::is_deque(container), "only tuples, lists and deques have items by number");
    return StepOp::DequeItem;
}

}  // namespace

std::int32_t GuardBuilder::emit(const Step& step, std::int32_t fact) {
    state_.steps.push_back(step);
    state_.fact_of_step.push_back(fact);
    return static_cast<std::int32_t>(state_.steps.size()) - 1;
}

void GuardBuilder::emit_fetch(std::int32_t index) {
    Draft& draft = drafts_[index];
    const Source& source = *draft.source;
    Step step{.op = StepOp::Slot,
              .absent = draft.absent,
              .to = index,
              .from = state_.places[index].parent,
              .number = source.number,
              .object = source.key};
    switch (source.access) {
        case Access::Slot:
            break;
        case Access::Function:
            step.op = StepOp::Function;
            break;
        case Access::HandledException:
            step.op = StepOp::HandledException;
            break;
        case Access::Pinned:
            state_.registers[index] = source.object;
            return;
        case Access::Globals:
            step.op = StepOp::Globals;
            break;
        case Access::Builtins:
            step.op = StepOp::Builtins;
            break;
        case Access::ClosureCell:
            step.op = StepOp::ClosureCell;
            break;
        case Access::CellContents:
            step.op = StepOp::CellContents;
            break;
        case Access::Default:
            step.op = StepOp::Default;
            break;
        case Access::KeywordDefault:
            STATOR_CHECK(PyUnicode_CheckExact(source.key), "the name of a parameter is a str");
            step.op = StepOp::KeywordDefault;
            break;
        case Access::Item:
            STATOR_CHECK(source.number >= 0, "the index of an item is negative");
            STATOR_CHECK(source.parent->object != nullptr, "an item of a missing object");
            step.op = item_step(source.parent->object);
            break;
        case Access::DictItem:
            step.op = PyUnicode_CheckExact(source.key) ? StepOp::StringItem
                      : is_constant_key(source.key)    ? StepOp::ConstantItem
                                                       : StepOp::IdentityItem;
            step.number = state_.places[step.from].parent;
            STATOR_CHECK(step.op != StepOp::IdentityItem || holds_key_itself(source),
                         "looking up the key would run user code");
            break;
        case Access::InstanceDict:
            if (source.parent->object != nullptr && PyModule_Check(source.parent->object)) {
                step.op = StepOp::ModuleDict;
                break;
            }
            plan_instance_dict(draft);
            if (draft.fetched_by_block) return;
            step.op = StepOp::InstanceDict;
            break;
        case Access::ClassAttribute:
            STATOR_CHECK(PyUnicode_CheckExact(source.key), "the name of an attribute is a str");
            step.op = StepOp::ClassAttribute;
            break;
        case Access::Member:
            describe_member(step, source);
            break;
        case Access::MethodSelf:
            step.op = StepOp::MethodSelf;
            break;
        case Access::MethodFunction:
            step.op = StepOp::MethodFunction;
            break;
        case Access::Referent:
            step.op = StepOp::Referent;
            break;
        case Access::Entry:
            step.op = StepOp::Entry;
            break;
        case Access::WalkedOver:
            step.op = StepOp::WalkedOver;
            break;
        case Access::Upcoming:
            step.op = StepOp::Upcoming;
            step.version = static_cast<std::uint64_t>(source.number);
            step.number = static_cast<std::int32_t>(state_.computed.size());
            state_.computed.emplace_back();
            break;
        case Access::ArrayTensor:
            step.op = StepOp::ArrayTensor;
            step.version = static_cast<std::uint64_t>(source.number);
            step.number = static_cast<std::int32_t>(state_.computed.size());
            state_.computed.emplace_back();
            break;
        case Access::Drawn:
            STATOR_CHECK(false, "a random number is not fetched");
        case Access::Size:
        case Access::Stride:
        case Access::Offset:
            step.op = StepOp::Size;
            step.version = static_cast<std::uint64_t>(layout_number_of(source));
            step.number = static_cast<std::int32_t>(state_.computed.size());
            state_.computed.emplace_back();
            break;
    }
    emit(step);
}

void GuardBuilder::describe_member(Step& step, const Source& source) {
    STATOR_CHECK(source.parent->object != nullptr, "a member of a missing object");
    if (!PyUnicode_CheckExact(source.key)) return compute_by(step, source.key);
    PyObject* descriptor = cpython::lookup_in_mro(Py_TYPE(source.parent->object), source.key);
    STATOR_CHECK(descriptor != nullptr &&
                     (Py_IS_TYPE(descriptor, &PyMemberDescr_Type) || Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)),
                 "neither a member of a C class nor of __slots__");
    if (Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        const PyMemberDef& member = *reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
        if (member.type == T_OBJECT || member.type == T_OBJECT_EX) {
            step.op = StepOp::Member;
            step.number = narrow(member.offset);
            step.object = keep(reinterpret_cast<PyObject*>(PyDescr_TYPE(descriptor)));
            step.extra = member.type == T_OBJECT ? Py_None : nullptr;
            return;
        }
    }
    if (PyDescr_TYPE(descriptor) == &PyFunction_Type) {
        // Calling the descriptor would cost ten times as much, and raise an audit event.
        if (Py_ssize_t offset = cpython::offset_of_function_attribute(source.key)) {
            step.op = StepOp::Member;
            step.number = narrow(offset);
            step.object = reinterpret_cast<PyObject*>(&PyFunction_Type);
            step.extra = Py_None;
            return;
        }
    }
    compute_by(step, descriptor);
}

void GuardBuilder::compute_by(Step& step, PyObject* descriptor) {
    step.op = StepOp::Computed;
    step.object = keep(descriptor);
    step.number = static_cast<std::int32_t>(state_.computed.size());
    state_.computed.emplace_back();
}

void GuardBuilder::emit_check(std::int32_t index) {
    const Fact& fact = state_.facts[index];
    const Draft& draft = drafts_[fact.place];
    Step step{.op = StepOp::Identity, .from = fact.place, .object = fact.expected};
    switch (fact.kind) {
        case GuardKind::Type:
            STATOR_CHECK(PyType_Check(fact.expected), "a type guard needs a class");
            step.op = StepOp::Type;
            break;
        case GuardKind::Identity:
            break;
        case GuardKind::Constant:
            step.op = StepOp::Constant;
            break;
        case GuardKind::Function:
            step.op = StepOp::FunctionCode;
            step.extra = cpython::globals_of(reinterpret_cast<PyFunctionObject*>(expected_[index]));
            break;
        case GuardKind::Length: {
            PyObject* seen = draft.source->object;
            STATOR_CHECK(seen != nullptr, "the length of a missing object");
            step.number = narrow(fact.number);
            if (PyTuple_Check(seen))
                step.op = StepOp::TupleLength;
            else if (PyList_Check(seen))
                step.op = StepOp::ListLength;
            else if (PyObject_TypeCheck(seen, cpython::deque_class()))
                step.op = StepOp::DequeLength;
            else if (PyDict_Check(seen))
                step.op = StepOp::DictLength;
            else if (PyAnySet_Check(seen))
                step.op = StepOp::SetLength;
            else
                STATOR_CHECK(false, "a length guard needs a tuple, list, deque, dict or set");
            break;
        }
        case GuardKind::HasNoKey:
            step.op = PyUnicode_CheckExact(fact.expected) ? StepOp::NoStringKey
                      : is_constant_key(fact.expected)    ? StepOp::NoConstantKey
                                                          : StepOp::NoIdentityKey;
            STATOR_CHECK(step.op != StepOp::NoIdentityKey || is_known_by_identity(fact.expected) ||
                             torch_room::is_plain_tensor(fact.expected),
                         "looking up the key would run user code");
            step.number = state_.places[fact.place].parent;
            break;
        case GuardKind::Keys:
            STATOR_CHECK(PyTuple_CheckExact(fact.expected), "a guard on keys needs a tuple");
            step.op = has_own_order(fact) ? StepOp::OrderedKeys : StepOp::Keys;
            step.number = narrow(fact.number);
            break;
        case GuardKind::Elements:
            step.op = StepOp::Elements;
            step.number = narrow(fact.number);
            step.object = elements_in_order(draft.source->object, fact.expected);
            break;
        case GuardKind::Present:
        case GuardKind::Absent:
            return;
        case GuardKind::Tensor:
            step.op = StepOp::Tensor;
            step.number = fact.tensor;
            break;
        case GuardKind::Autograd:
            step.op = StepOp::Autograd;
            step.number = narrow(fact.number);
            break;
        case GuardKind::Offset:
            step.op = StepOp::Offset;
            step.version = static_cast<std::uint64_t>(fact.number);
            break;
        case GuardKind::Flattened:
            step.op = StepOp::Flattened;
            break;
        case GuardKind::Subclass:
            STATOR_CHECK(PyType_Check(fact.expected), "a guard on a subclass needs a class");
            step.op = StepOp::Subclass;
            step.number = narrow(fact.number);
            break;
        case GuardKind::Same:
        case GuardKind::Different:
            step.op = fact.kind == GuardKind::Same ? StepOp::Same : StepOp::Different;
            step.number = fact.other;
            break;
        case GuardKind::Expression:
            step.op = StepOp::Expression;
            step.number = narrow(fact.number);
            break;
    }
    emit(step, index);
}

PyObject* GuardBuilder::elements_in_order(PyObject* seen, PyObject* expected) {
    STATOR_CHECK(PyAnySet_Check(expected), "a guard on elements needs a frozenset");
    PyObject* set =
        seen != nullptr && PyAnySet_Check(seen) && PySet_GET_SIZE(seen) == PySet_GET_SIZE(expected) ? seen : expected;
    Ref<> elements = Ref<>::steal(PyTuple_New(PySet_GET_SIZE(set)));
    STATOR_CHECK(elements, "out of memory");
    Py_ssize_t i = 0;
    for (SetEntries entries(set); entries.next(); ++i) PyTuple_SET_ITEM(elements.get(), i, Py_NewRef(entries.key()));
    return keep(elements.get());
}

}  // namespace stator
