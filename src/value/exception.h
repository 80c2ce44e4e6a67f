/// Exceptions raised inside the trace.
#pragma once

#include "value/object.h"

namespace stator {

struct ExceptionValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Exception;
    explicit ExceptionValue(PyTypeObject* type) : ObjectValue(kKind, type) {}

    /// `args`.
    std::vector<Value*> arguments;
    /// A real exception, where a real operation raised it while tracing; then `arguments` are of its `args`.
    PyObject* real = nullptr;
    Value* cause = nullptr;
    Value* context = nullptr;
    bool suppress_context = false;

    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// The value of an exception to raise: an instance, or a class that is called without arguments.
ExceptionValue* make_exception(Tracer& tracer, PyTypeObject* type, std::vector<Value*> arguments);
/// What stands for the traceback of an exception: may be passed on, and breaks when it is looked at.
Value* traceback_of(Tracer& tracer, Value* exception);
/// The value of a real exception that a real operation raised while tracing.
ExceptionValue* make_exception(Tracer& tracer, PyObject* real);

}  // namespace stator
