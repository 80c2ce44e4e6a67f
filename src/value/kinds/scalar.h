/// Instances of subclasses of int, float, str and other immutable builtins: a constant with its own class and
/// attributes.
#pragma once

#include "value/kinds/object.h"

namespace stator {

struct ScalarValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Scalar;
    explicit ScalarValue(PyTypeObject* type) : ObjectValue(kKind, type) {}

    /// The constant, as an instance of the builtin class; null for an outside value until it is realized.
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
/// The value to use as a key: the constant inside a scalar whose class does not override `==`.
Value* as_plain_key(Tracer& tracer, Value* value);
/// The constant inside a scalar, or the tensor inside a subclass without `__torch_function__`; any other value itself.
Value* unwrapped(Tracer& tracer, Value* value);

}  // namespace stator
