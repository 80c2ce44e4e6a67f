/// numpy arrays, and numpy scalars that the graph computes: a tensor of the graph with numpy's class. Operations on
/// them are nodes that call `torch._numpy` (see builtins/arrays.h), and the plan makes arrays over the memory of
/// tensors.
#pragma once

#include "value/tensor/tensor.h"

namespace stator {

struct ArrayValue final : Value {
    static constexpr Kind kKind = Kind::Array;
    ArrayValue() : Value(kKind) {}

    /// What the graph has for it; null for one from outside until it is realized.
    TensorValue* payload = nullptr;
    PyObject* outside = nullptr;  // the real array, if it came from outside
    bool is_scalar = false;       // immutable, without dimensions, of a class such as `numpy.float64`
    bool is_writeable = true;

    const torch_room::TensorMeta& meta() const { return *payload->meta; }
    /// A numpy scalar that differs between calls. Where the program needs its value, the trace is specialized on it.
    bool is_outside_scalar() const { return is_scalar && source != nullptr; }
    PyObject* specialized(Tracer& tracer) const;

    void realize(Tracer& tracer) override;
    PyTypeObject* type() const override;
    PyObject* object() const override { return outside; }
    Ref<> as_constant(Tracer& tracer) override;
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    void set_item(Tracer& tracer, Value* key, Value* value) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    Value* unary(Tracer& tracer, UnaryOperator op) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// An array, or a numpy scalar, that the graph has computed.
ArrayValue* make_array(Tracer& tracer, TensorValue* payload, bool is_scalar = false, bool is_writeable = true);

}  // namespace stator
