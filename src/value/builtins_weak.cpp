/// Weak references.
#include "cpython/weak.h"
#include "value/object.h"
#include "value/registry.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// `reference()`: a place like any other, which holds None once the object is gone.
Outcome call_reference(Tracer& tracer, const Arguments& arguments) {
    Value* self = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (arguments.count() != 1 || self == nullptr || self->source == nullptr || self->object() == nullptr ||
        !PyWeakref_CheckRef(self->object()))
        tracer.break_graph(BreakKind::UnknownObject, "a weak reference that is new is called");
    tracer.realize(self);
    Ref<> target = Ref<>::share(cpython::referent_or_none(self->object()).get());
    return tracer.outside(tracer.provenance().child(self->source, Access::Referent, nullptr, 0, target.get()),
                          target.get());
}

}  // namespace

void register_weak(Handlers& handlers) {
    handlers.add_method(&_PyWeakref_RefType, "__call__", call_reference);
}

}  // namespace stator
