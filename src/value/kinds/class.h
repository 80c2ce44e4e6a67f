/// Classes. They are real objects, known by identity.
#pragma once

#include "value/value.h"

namespace stator {

struct ClassValue final : Value {
    static constexpr Kind kKind = Kind::Class;
    explicit ClassValue(PyTypeObject* held) : Value(kKind), held(held) {}

    PyTypeObject* const held;

    void realize(Tracer& tracer) override;
    PyTypeObject* type() const override { return Py_TYPE(held); }
    PyObject* object() const override { return reinterpret_cast<PyObject*>(held); }
    Ref<> as_constant(Tracer& tracer) override;
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    void set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    bool delete_own_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome call(Tracer& tracer, const Arguments& arguments) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    Outcome iterate(Tracer& tracer) override;  // enum classes
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;  // X | Y
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// `type.__call__`: a new instance by `__new__` and `__init__`.
Outcome construct_instance(Tracer& tracer, ClassValue* type, const Arguments& arguments);

/// `super()` and `super(C, obj)`.
struct SuperValue final : Value {
    static constexpr Kind kKind = Kind::Super;
    SuperValue(PyTypeObject* start, Value* self) : Value(kKind), start(start), self(self) {}

    PyTypeObject* start;  // the lookup begins after it in the MRO of `self`'s class
    Value* self;

    PyTypeObject* type() const override { return &PySuper_Type; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

}  // namespace stator
