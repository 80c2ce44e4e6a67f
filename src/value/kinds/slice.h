/// Slices whose parts are values.
#pragma once

#include "value/value.h"

namespace stator {

struct SliceValue final : Value {
    static constexpr Kind kKind = Kind::Slice;
    SliceValue(Value* start, Value* stop, Value* step) : Value(kKind), start(start), stop(stop), step(step) {}

    Value *start, *stop, *step;

    PyTypeObject* type() const override { return &PySlice_Type; }
    Ref<> as_constant(Tracer& tracer) override;
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

}  // namespace stator
