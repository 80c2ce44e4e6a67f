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
    /// What `real` was made of, where the program made it.
    Arguments made_of;
    Value* cause = nullptr;
    Value* context = nullptr;
    bool suppress_context = false;
    /// Whether it went through a frame: then it has a traceback, which can't be rebuilt.
    bool was_raised = false;

    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// The value of an exception to raise: an instance, or a class that is called without arguments.
ExceptionValue* make_exception(Tracer& tracer, PyTypeObject* type, std::vector<Value*> arguments);
/// `type(*arguments)` for a class of exceptions. Classes whose C code keeps more than `args` (OSError, ImportError,
/// ...) are made for real, of constants. With an `__init__` of the program's own, that is left to it.
ExceptionValue* new_exception(Tracer& tracer, PyTypeObject* type, const Arguments& arguments, bool has_own_init);
/// `BaseException.__init__(exception, *arguments)`, or what a C class has in its place.
void initialise_exception(Tracer& tracer, ExceptionValue* exception, const Arguments& arguments);
/// `str(exception)` and `repr(exception)` by C code.
Outcome exception_str(Tracer& tracer, ExceptionValue* exception);
Outcome exception_repr(Tracer& tracer, ExceptionValue* exception);
/// What stands for the traceback of an exception: may be passed on, and breaks when it is looked at.
Value* traceback_of(Tracer& tracer, Value* exception);
/// The value of a real exception that a real operation raised while tracing.
ExceptionValue* make_exception(Tracer& tracer, PyObject* real);

}  // namespace stator
