/// Instances of library classes that never change and whose operations are pure:
/// `list[int]`, `int | str`, the objects of `typing`.
#pragma once

#include "value/kinds/object.h"

namespace stator {

/// Such an object is a constant: operations on it are evaluated while tracing, and it is guarded by identity.
struct FrozenObjectValue final : ObjectValue {
    explicit FrozenObjectValue(PyObject* held) : ObjectValue(Py_TYPE(held)) { outside = held; }

    void realize(Tracer& tracer) override;
    Ref<> as_constant(Tracer& tracer) override;
    Outcome call(Tracer& tracer, const Arguments& arguments) override;  // dict[str, int]()
    Outcome get_item(Tracer& tracer, Value* key) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;  // X | Y
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
};

/// Whether instances of the class are such objects.
bool is_frozen_class(PyTypeObject* type);

}  // namespace stator
