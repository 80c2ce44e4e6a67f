/// Instances of subclasses of int, float, str and other immutable builtins: a constant with its own class and
/// attributes.
#pragma once

#include "value/kinds/object.h"

namespace stator {

struct ScalarValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Scalar;
    explicit ScalarValue(PyTypeObject* type) : ObjectValue(kKind, type) {}

    /// The constant inside, an instance of the builtin class; null for one from outside until it is realized.
    Value* payload = nullptr;

    /// The payload, realized.
    Value* plain(Tracer& tracer);

    Ref<> as_constant(Tracer& tracer) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* unary(Tracer& tracer, UnaryOperator op) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// The builtin class of constants (int, float, complex, str, bytes) that a class derives from; null if it does not.
PyTypeObject* scalar_base(PyTypeObject* type);
/// `int.__new__(type, *arguments)` and the like; null if the arguments are not all constants.
ScalarValue* make_scalar(Tracer& tracer, PyTypeObject* type, const Arguments& arguments);
/// The constant inside a scalar whose class inherits `==` from the builtin class: as a key the two are the same.
Value* as_plain_key(Tracer& tracer, Value* value);
/// The constant inside a scalar, or the tensor inside a tensor subclass without an active `__torch_function__`; any
/// other value is returned as it is.
Value* unwrapped(Tracer& tracer, Value* value);

}  // namespace stator
