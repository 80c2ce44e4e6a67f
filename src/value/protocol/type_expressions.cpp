#include "value/protocol/type_expressions.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// `list[int]` or `int | None`. Both are immutable.
bool is_generic_or_union(const Value* value) {
    static PyTypeObject* const generic = imported_class("types", "GenericAlias");
    static PyTypeObject* const union_class = imported_class("types", "UnionType");
    PyObject* object = value->object();
    return object != nullptr && (PyType_IsSubtype(Py_TYPE(object), generic) != 0 || Py_TYPE(object) == union_class);
}

bool is_type(const Value* value) {
    return value->object() == Py_None || value->kind == Kind::Class || is_generic_or_union(value);
}

/// The object of a type, which is guarded to be the same in all calls.
PyObject* guarded_type(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (value->source != nullptr && value->source->access != Access::Pinned && is_generic_or_union(value))
        tracer.guard({GuardKind::Identity, value->source, value->object()});
    return value->object();
}

}  // namespace

Value* union_of_types(Tracer& tracer, Value* left, Value* right) {
    if (!is_type(left) || !is_type(right)) return nullptr;
    if (!is_generic_or_union(left) && !is_generic_or_union(right)) return nullptr;
    Ref<> made = Ref<>::steal(PyNumber_Or(guarded_type(tracer, left), guarded_type(tracer, right)));
    if (!made) tracer.raise_from_python();
    return tracer.constant(made.get());
}

}  // namespace stator
