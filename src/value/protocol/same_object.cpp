#include "value/protocol/operations.h"

#include "base/text.h"
#include "guard/constants.h"
#include "torch/known.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/function.h"
#include "value/kinds/weak.h"
#include "value/protocol/identity.h"

namespace stator::operations {

namespace {

bool is_singleton(PyObject* object) {
    return object == Py_None || PyBool_Check(object) || object == Py_Ellipsis || object == Py_NotImplemented;
}

/// Functions are guarded by their code; comparing identities needs an identity guard.
void guard_identity(Tracer& tracer, Value* value) {
    if (value->kind != Kind::Function || value->source == nullptr || value->object() == nullptr) return;
    // A closure may be freed with the variables that it captures, and no guard may keep those alive.
    bool is_local = utf8(static_cast<FunctionValue*>(value)->code->co_qualname).find("<locals>") != std::string::npos;
    if (is_local && guard_weakly(tracer, value) != nullptr) return;
    tracer.guard({GuardKind::Identity, value->source, value->object()});
}

/// A symbolic int is never None.
bool is_of_other_class(Value* one, Value* other) {
    return symbolic::is(one) && !PyBool_Check(one->object()) && other->kind == Kind::Constant &&
           other->object() != nullptr && is_singleton(other->object());
}

/// The empty tuple is a singleton.
bool is_empty_tuple(Tracer& tracer, Value* value) {
    return value->kind == Kind::Tuple && value->type() == &PyTuple_Type && value->length(tracer) == 0;
}

/// Whether a guard on the value implies the identity: there is only one object with that value.
bool is_unique(PyObject* object) {
    if (is_singleton(object) || !is_safe_to_compare(object)) return true;
    const auto& known = torch_room::known();
    PyTypeObject* type = Py_TYPE(object);
    if (type == known.dtype_class || type == known.layout_class || type == known.memory_format_class) return true;
    if (type != &PyLong_Type) return false;
    // CPython shares the small ints.
    int overflow = 0;
    long number = PyLong_AsLongAndOverflow(object, &overflow);
    return overflow == 0 && number >= -5 && number <= 256;
}

bool comes_from_outside(const Value* value) {
    return value->source != nullptr && value->source->access != Access::Pinned;
}

/// Two sources lead to one object, which no guard checks yet.
void guard_one_object(Tracer& tracer, Value* left, Value* right) {
    if (comes_from_outside(left) && comes_from_outside(right))
        tracer.guard({GuardKind::Same, left->source, nullptr, 0, right->source});
    else if (comes_from_outside(left))
        tracer.guard({GuardKind::Identity, left->source, left->object()});
    else if (comes_from_outside(right))
        tracer.guard({GuardKind::Identity, right->source, right->object()});
}

void guard_two_objects(Tracer& tracer, Value* left, Value* right) {
    auto place_of = [&](Value* value) {
        if (value->source != nullptr || value->object() == nullptr) return value->source;
        return tracer.provenance().pinned(value->object());
    };
    if (!comes_from_outside(left)) std::swap(left, right);
    if (!comes_from_outside(left)) return;
    if (Source* other = place_of(right)) tracer.guard({GuardKind::Different, left->source, nullptr, 0, other});
}

bool are_one_constant(Tracer& tracer, Value* left, Value* right) {
    PyObject *left_object = left->object(), *right_object = right->object();
    // The guards on their values distinguish them.
    if (!same_constant(left_object, right_object)) return false;
    if (left_object == right_object && is_unique(left_object)) return true;
    guard_members(tracer, left);
    guard_members(tracer, right);
    if (left_object == right_object) {
        guard_one_object(tracer, left, right);
        return true;
    }
    // Whether a computed number or string is an existing object depends on CPython's caches.
    auto is_known = [](Value* value) { return comes_from_outside(value) || value->equal_member_of != nullptr; };
    // CPython does not cache NaN: two computed ones, or two literals, are different objects.
    if (!is_known(left) && !is_known(right) && is_unequal_to_itself(left_object)) return false;
    if (!is_known(left) || !is_known(right))
        tracer.break_graph(BreakKind::UnknownObject, "the identity of two equal constants is compared");
    guard_two_objects(tracer, left, right);
    return false;
}

}  // namespace

bool same_object(Tracer& tracer, Value* left, Value* right) {
    if (left == right) return true;
    if (is_of_other_class(left, right) || is_of_other_class(right, left)) {
        symbolic::realize_class(tracer, left);
        symbolic::realize_class(tracer, right);
        return false;
    }
    tracer.realize(left);
    tracer.realize(right);
    if (is_empty_tuple(tracer, left) && is_empty_tuple(tracer, right)) return true;
    if (left->kind == Kind::Constant && right->kind == Kind::Constant) return are_one_constant(tracer, left, right);
    // A function is never a constant, so no identity guard is needed, which would keep it alive.
    if (right->kind != Kind::Constant) guard_identity(tracer, left);
    if (left->kind != Kind::Constant) guard_identity(tracer, right);
    if (left->type() == right->type()) {
        if (left->type() == &_PyWeakref_RefType && (left->source == nullptr || right->source == nullptr))
            tracer.break_graph(BreakKind::UnknownObject,
                               "the identity of a weak reference that was created in the captured region is compared");
        guard_members(tracer, left);
        guard_members(tracer, right);
    }
    PyObject *left_object = left->object(), *right_object = right->object();
    if (left_object != nullptr && left_object == right_object) {
        // Other kinds are guarded by identity, or one object has one value.
        if (left->kind == Kind::Tuple || left->kind == Kind::Method) guard_one_object(tracer, left, right);
        return true;
    }
    if (left->kind == Kind::Constant || right->kind == Kind::Constant) return false;
    guard_two_objects(tracer, left, right);
    return false;
}

Value* is(Tracer& tracer, Value* left, Value* right) {
    return tracer.boolean(same_object(tracer, left, right));
}

}  // namespace stator::operations
