/// Tensors of classes of the program's own: a tensor with a class and attributes. What operations on them do, the
/// `__torch_function__` of the class says (see torch_function.h). A graph has the tensor alone, as if it was of no such
/// class; the class is put back where the tensor leaves the trace.
#pragma once

#include "value/kinds/object.h"

namespace stator {

struct TensorValue;

struct TensorObjectValue final : ObjectValue {
    static constexpr Kind kKind = Kind::TensorObject;
    explicit TensorObjectValue(PyTypeObject* type) : ObjectValue(kKind, type) {}

    /// The tensor as the graph has it; null for one from outside until it is looked at.
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
    /// The payload, where the class has no say in what is done with it.
    TensorValue* plain(Tracer& tracer);
};

}  // namespace stator
