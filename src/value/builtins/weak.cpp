/// Weak references.
#include "cpython/weak.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/builtins/registry.h"
#include "value/effect_log.h"
#include "value/kinds/object.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/weak.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

namespace {

bool is_made_reference(const Value* value) {
    return value->type() == &_PyWeakref_RefType && value->source == nullptr;
}

/// The caller holds an outside object. One that was created in the trace may have been freed.
Value* referent_of(Tracer& tracer, WeakReferenceValue* reference) {
    if (reference->referent->source == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "a weak reference to an object that was created in the captured region is dereferenced");
    tracer.effects().expect_held(reference->referent);
    return reference->referent;
}

/// The object that a weak reference or a proxy from outside leads to, or None.
Value* outside_referent(Tracer& tracer, Value* reference) {
    Ref<> target = Ref<>::share(cpython::referent_or_none(reference->object()).get());
    Value* referent = tracer.outside(
        tracer.provenance().child(reference->source, Access::Referent, nullptr, 0, target.get()), target.get());
    if (target.get() != Py_None) tracer.effects().expect_held(referent);
    return referent;
}

/// `reference()`: a source like any other, which leads to None once the object is freed.
Outcome call_reference(Tracer& tracer, const Arguments& arguments) {
    Value* self = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (arguments.count() == 1 && is_made_reference(self))
        return referent_of(tracer, static_cast<WeakReferenceValue*>(self));
    if (arguments.count() != 1 || self == nullptr || self->source == nullptr || self->object() == nullptr ||
        !PyWeakref_CheckRef(self->object()))
        tracer.break_graph(BreakKind::UnknownObject, "an object of a subclass of weakref.ref is called");
    tracer.realize(self);
    return outside_referent(tracer, self);
}

/// `weakref.ref(object)`. Each object has only one plain weak reference: for an outside object other than a tensor it
/// is created while tracing.
Outcome make_reference(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() != 1 || !arguments.keywords.empty())
        tracer.break_graph(BreakKind::UnknownObject, "a weak reference is created with a callback");
    Value* referent = arguments.positional[0];
    if (PyObject* reference = guard_weakly(tracer, referent))
        return tracer.outside(tracer.provenance().pinned(reference), reference);
    const bool is_made = referent->source == nullptr && (referent->kind == Kind::Object || referent->kind == Kind::Set);
    if ((referent->kind != Kind::Tensor && !is_made) || !PyType_SUPPORTS_WEAKREFS(referent->type()))
        tracer.break_graph(BreakKind::UnknownObject,
                           "a weak reference to an object of class " + type_name(referent->type()) + " is created");
    return tracer.make<WeakReferenceValue>(referent);
}

}  // namespace

Outcome WeakProxyValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    Value* referent = outside_referent(tracer, this);
    tracer.realize(referent);
    if (referent->object() == Py_None) tracer.raise(PyExc_ReferenceError, "weakly-referenced object no longer exists");
    return operations::get_attribute(tracer, referent, name);
}

Outcome WeakReferenceValue::compare(Tracer& tracer, Comparison, Value*) {
    tracer.break_graph(BreakKind::UnknownObject,
                       "a weak reference that was created in the captured region is compared");
}

Py_hash_t WeakReferenceValue::hash(Tracer& tracer) {
    tracer.break_graph(BreakKind::UnknownObject, "a weak reference that was created in the captured region is hashed");
}

int WeakReferenceValue::rebuild(PlanBuilder& plan) {
    return rebuild_by_call(plan, this, reinterpret_cast<PyObject*>(class_), std::vector<Value*>{referent});
}

PyObject* guard_weakly(Tracer& tracer, Value* value) {
    tracer.realize(value);
    PyObject* real = value->source == nullptr ? nullptr : value->object();
    if (real == nullptr || value->kind == Kind::Tensor || value->kind == Kind::Constant ||
        !PyType_SUPPORTS_WEAKREFS(Py_TYPE(real)))
        return nullptr;
    return guard_identity_weakly(tracer, value);
}

PyObject* guard_identity_weakly(Tracer& tracer, Value* value) {
    PyObject* real = value->object();
    PyObject* reference = tracer.keep(checked(PyWeakref_NewRef(real, nullptr)));
    Source* holder = tracer.provenance().pinned(reference);
    Source* place = tracer.provenance().child(holder, Access::Referent, nullptr, 0, real);
    if (value->source->access != Access::Pinned && place != value->source)
        tracer.guard({GuardKind::Same, place, nullptr, 0, value->source});
    return reference;
}

void register_weak(Handlers& handlers) {
    handlers.add(reinterpret_cast<PyObject*>(&_PyWeakref_RefType), make_reference);
    handlers.add_method(&_PyWeakref_RefType, "__call__", call_reference);
}

}  // namespace stator
