/// Python modules. They are guarded by identity; attributes are read from their dict and guarded there.
#pragma once

#include "value/value.h"

namespace stator {

struct PythonModuleValue final : Value {
    static constexpr Kind kKind = Kind::PythonModule;
    explicit PythonModuleValue(PyObject* held) : Value(kKind), held(held) {}

    PyObject* const held;

    void realize(Tracer& tracer) override;
    PyTypeObject* type() const override { return Py_TYPE(held); }
    PyObject* object() const override { return held; }
    Value* own_attribute(Tracer& tracer, Borrowed<> name) override;
    void set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    bool delete_own_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

}  // namespace stator
