#include "value/identity.h"

#include "value/operations.h"

namespace stator {

namespace {

Task compare_for_truth(Tracer& tracer, Value* left, Value* right) {
    Value* answer = co_await operations::compare(tracer, Comparison::Equal, left, right);
    co_return co_await operations::truth(tracer, answer);
}

}  // namespace

std::optional<bool> equal_at_once(Tracer& tracer, Value* left, Value* right) {
    if (left == right) return true;
    if (left->kind == Kind::Constant && right->kind == Kind::Constant) {
        tracer.realize(left);
        tracer.realize(right);
        int equal = PyObject_RichCompareBool(left->object(), right->object(), Py_EQ);
        if (equal < 0) tracer.raise_from_python();
        return equal != 0;
    }
    if (operations::same_object(tracer, left, right)) return true;
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

bool compares_by_identity(PyTypeObject* type) {
    return type->tp_richcompare == PyBaseObject_Type.tp_richcompare && type->tp_hash == PyBaseObject_Type.tp_hash;
}

}  // namespace stator
