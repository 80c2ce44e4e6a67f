#include "value/protocol/type_expressions.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "value/kinds/sequence.h"
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

Ref<> type_argument(Tracer& tracer, Value* value) {
    if (Ref<> constant = value->as_constant(tracer)) return constant;
    if (is_type(value)) return Ref<>::share(guarded_type(tracer, value));
    auto* several = cast<TupleValue>(value);
    if (several == nullptr || several->type() != &PyTuple_Type) return {};
    Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(several->items.size())));
    for (std::size_t i = 0; i < several->items.size(); ++i) {
        Ref<> item = type_argument(tracer, several->items[i]);
        if (!item) return {};
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    return tuple;
}

}  // namespace stator
