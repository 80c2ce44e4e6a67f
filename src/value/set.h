/// Sets and frozensets.
#pragma once

#include "value/object.h"
#include "value/table.h"

namespace stator {

struct SetValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Set;
    explicit SetValue(PyTypeObject* type = &PySet_Type) : ObjectValue(kKind, type) {}

    Table table;

    void realize(Tracer& tracer) override;
    Ref<> as_constant(Tracer& tracer) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

}  // namespace stator
