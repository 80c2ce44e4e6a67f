/// Descriptors that the program makes in the trace: `property`, `classmethod` and `staticmethod` of functions.
#pragma once

#include "value/kinds/object.h"

namespace stator {

struct MadeDescriptor final : ObjectValue {
    MadeDescriptor(PyTypeObject* type, PyObject* held, Arguments arguments)
        : ObjectValue(type), held(held), made_of(std::move(arguments)) {}

    PyObject* const held;  // one of the same class, of stand-ins; kept alive by the trace
    Arguments const made_of;

    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// The object that the model of a made class (made_class.h) has in the place of a value, kept alive by the trace: the
/// class binds both alike. Null for a value that the class would bind in a way of its own.
PyObject* stand_in_for(Tracer& tracer, Value* value);
/// An object that a class binds as it binds this attribute, a function or no descriptor at all.
PyObject* descriptor_like(Tracer& tracer, Value* value);

}  // namespace stator
