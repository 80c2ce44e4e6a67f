/// Weak references.
#pragma once

#include "value/kinds/object.h"

namespace stator {

/// A plain weak reference that the program creates to a tensor, or to an object that was created in the trace. (That
/// to any other outside object is created while tracing.)
struct WeakReferenceValue final : ObjectValue {
    explicit WeakReferenceValue(Value* referent) : ObjectValue(&_PyWeakref_RefType), referent(referent) {}
    Value* referent;

    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override { return "weakref.ref(" + referent->print() + ")"; }
};

/// A `weakref.proxy` from outside, whose attributes are those of its referent.
struct WeakProxyValue final : ObjectValue {
    explicit WeakProxyValue(PyObject* proxy) : ObjectValue(Py_TYPE(proxy)) { outside = proxy; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
};

/// Guards the identity of an object from outside without keeping it alive, and returns the plain weak reference to it.
/// Null for values that are not guarded by identity (constants, tensors), for objects made in the trace, and for
/// classes without weak references.
PyObject* guard_weakly(Tracer& tracer, Value* value);
/// The same for a realized value from outside whose class has weak references, a tensor too.
PyObject* guard_identity_weakly(Tracer& tracer, Value* value);

}  // namespace stator
