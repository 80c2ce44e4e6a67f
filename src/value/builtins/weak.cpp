/// Weak references.
#include "cpython/weak.h"
#include "base/python_error.h"
#include "value/builtins/registry.h"
#include "value/effect_log.h"
#include "value/kinds/object.h"
#include "value/kinds/weak.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// `reference()`: a source like any other, which leads to None once the object is freed.
Outcome call_reference(Tracer& tracer, const Arguments& arguments) {
    Value* self = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (arguments.count() != 1 || self == nullptr || self->source == nullptr || self->object() == nullptr ||
        !PyWeakref_CheckRef(self->object()))
        tracer.break_graph(BreakKind::UnknownObject,
                           "a weak reference that was created in the captured region is dereferenced");
    tracer.realize(self);
    Ref<> target = Ref<>::share(cpython::referent_or_none(self->object()).get());
    Value* referent = tracer.outside(
        tracer.provenance().child(self->source, Access::Referent, nullptr, 0, target.get()), target.get());
    if (target.get() != Py_None) tracer.effects().expect_held(referent);
    return referent;
}

/// `weakref.ref(object)` for an outside object. Each object has only one plain weak reference, so it is created while
/// tracing.
Outcome make_reference(Tracer& tracer, const Arguments& arguments) {
    bool is_plain = arguments.count() == 1 && arguments.keywords.empty();
    PyObject* reference = is_plain ? guard_weakly(tracer, arguments.positional[0]) : nullptr;
    if (reference == nullptr)
        tracer.break_graph(
            BreakKind::UnknownObject,
            "a weak reference is created with a callback, or to an object that was created in the captured region");
    return tracer.outside(tracer.provenance().pinned(reference), reference);
}

}  // namespace

PyObject* guard_weakly(Tracer& tracer, Value* value) {
    tracer.realize(value);
    PyObject* real = value->source == nullptr ? nullptr : value->object();
    if (real == nullptr || value->kind == Kind::Tensor || value->kind == Kind::Constant ||
        !PyType_SUPPORTS_WEAKREFS(Py_TYPE(real)))
        return nullptr;
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
