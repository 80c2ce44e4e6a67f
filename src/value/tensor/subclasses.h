/// Tensor subclasses of the program: a plain tensor with a class and attributes. The `__torch_function__` of the class
/// implements operations on it (see torch_function.h). The graph has the plain tensor, and the plan restores the class
/// if the tensor leaves the trace.
#pragma once

#include "value/kinds/object.h"

namespace stator {

struct TensorValue;

struct TensorObjectValue final : ObjectValue {
    static constexpr Kind kKind = Kind::TensorObject;
    explicit TensorObjectValue(PyTypeObject* type) : ObjectValue(kKind, type) {}

    /// The plain tensor in the graph; null for one from outside until it is realized.
    TensorValue* payload = nullptr;

    void realize(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    Outcome assign_item(Tracer& tracer, Value* key, Value* value) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    Value* unary(Tracer& tracer, UnaryOperator op) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;

  private:
    /// The payload. Breaks the graph if the class has an active `__torch_function__`.
    TensorValue* plain(Tracer& tracer);
};

}  // namespace stator
