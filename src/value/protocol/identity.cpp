#include "value/protocol/identity.h"

#include "base/python_error.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/constant.h"
#include "value/kinds/object.h"
#include "value/kinds/sequence.h"
#include "value/protocol/operations.h"

namespace stator {

namespace {

Task compare_for_truth(Tracer& tracer, Value* left, Value* right) {
    Value* answer = co_await operations::compare(tracer, Comparison::Equal, left, right);
    co_return co_await operations::truth(tracer, answer);
}

bool is_changing_int(const Value* value) {
    return symbolic::is(value) && PyLong_CheckExact(value->object());
}

}  // namespace

std::optional<bool> equal_at_once(Tracer& tracer, Value* left, Value* right) {
    if (left == right) return true;
    // A NaN is equal to itself in a container, so it matters which objects floats are.
    if (is_changing_int(left) || is_changing_int(right))
        if (Value* answer = symbolic::compare(tracer, Comparison::Equal, left, right)) return is_true(answer);
    if (left->kind == Kind::Constant && right->kind == Kind::Constant) {
        tracer.realize(left);
        tracer.realize(right);
        if (runs_program_code(left->object()) || runs_program_code(right->object())) {
            if (operations::same_object(tracer, left, right)) return true;
            return std::nullopt;
        }
        // For other constants, equality does not depend on identity.
        if (is_unequal_to_itself(left->object()) && is_unequal_to_itself(right->object()))
            return operations::same_object(tracer, left, right);
        int equal = PyObject_RichCompareBool(left->object(), right->object(), Py_EQ);
        if (equal < 0) tracer.raise_from_python();
        return equal != 0;
    }
    // A tuple is equal to itself because its items are identical one by one.
    bool are_tuples = left->kind == Kind::Tuple && right->kind == Kind::Tuple && left->type() == &PyTuple_Type &&
                      right->type() == &PyTuple_Type;
    if (!are_tuples && operations::same_object(tracer, left, right)) return true;
    tracer.realize(left);
    tracer.realize(right);
    if (compares_by_identity(left->type()) && compares_by_identity(right->type())) return false;
    return std::nullopt;
}

bool is_true(const Value* boolean) {
    return boolean->object() == Py_True;
}

Outcome same_or_equal(Tracer& tracer, Value* left, Value* right) {
    if (auto answer = equal_at_once(tracer, left, right)) return tracer.boolean(*answer);
    return tracer.start(compare_for_truth(tracer, left, right));
}

bool is_member_by_identity(Borrowed<> key) {
    return (PyTuple_Check(key.get()) && !PyTuple_CheckExact(key.get())) || PyFrozenSet_CheckExact(key.get());
}

void mark_as_member(Value* key, Value* container, PyObject* object) {
    bool is_made = key->kind == Kind::Tuple || key->kind == Kind::Set;
    if (key->kind != Kind::Constant && (!is_made || key->source != nullptr)) return;
    if (key->kind == Kind::Constant && (!is_safe_to_compare(key->object()) || key->object() == Py_None)) return;
    key->equal_member_of = container;
    if (key->kind != Kind::Tuple) return;
    // A copy would not be identical to the key.
    if (key->type() == &PyTuple_Type && object != nullptr) static_cast<TupleValue*>(key)->outside = object;
    for (Value* item : static_cast<TupleValue*>(key)->items) mark_as_member(item, container, item->object());
}

void guard_members(Tracer& tracer, const Value* key) {
    if (key->equal_member_of == nullptr) return;
    // A frozenset is rebuilt from its elements, as is a tuple inside a tuple.
    if (key->object() == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "the identity of a key of a dict or an element of a set is compared");
    auto* container = static_cast<ObjectValue*>(key->equal_member_of);
    if (container->kind == Kind::Set) {
        Ref<> elements = checked(PyFrozenSet_New(container->outside));
        tracer.guard({GuardKind::Elements, container->source, tracer.keep(std::move(elements)), kByIdentity});
        return;
    }
    bool is_ordered = PyODict_Check(container->outside);
    Ref<> iterator = checked((is_ordered ? PyODict_Type : PyDict_Type).tp_iter(container->outside));
    Ref<> keys = checked(PySequence_Tuple(iterator.get()));
    tracer.guard({GuardKind::Keys, container->source, tracer.keep(std::move(keys)), kByIdentity});
}

bool compares_by_identity(PyTypeObject* type) {
    return type->tp_richcompare == PyBaseObject_Type.tp_richcompare && type->tp_hash == PyBaseObject_Type.tp_hash;
}

}  // namespace stator
