/// Exceptions raised inside the trace.
#pragma once

#include "cpython/offset.h"
#include "value/kinds/object.h"

namespace stator {

/// A frame of the program that an exception has passed through, for tracebacks.
struct TracedFrame {
    PyCodeObject* code;
    PyObject* globals;
    bool is_entered;  // the real frame that is traced
    cpython::Offset at;
};

/// An entry of a traceback, linked to the next.
struct TracebackValue final : Value {
    TracebackValue(TracedFrame* frame, cpython::Offset at, TracebackValue* next)
        : Value(Kind::Context), frame(frame), at(at), next_entry(next) {}
    TracedFrame* frame;
    cpython::Offset at;
    TracebackValue* next_entry;

    PyTypeObject* type() const override { return &PyTraceBack_Type; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override { return "traceback"; }
};

struct ExceptionValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Exception;
    explicit ExceptionValue(PyTypeObject* type) : ObjectValue(kKind, type) {}

    /// `args`.
    std::vector<Value*> arguments;
    /// The real exception, if an operation executed while tracing raised it; then `arguments` are its `args`.
    PyObject* real = nullptr;
    /// The arguments of the program from which `real` was made.
    Arguments made_of;
    Value* cause = nullptr;
    Value* context = nullptr;
    bool suppress_context = false;
    /// `__traceback__`: the frames it has passed through so far; null if none.
    TracebackValue* traceback = nullptr;

    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// A new exception with these `args`, made without calling code of the program.
ExceptionValue* make_exception(Tracer& tracer, PyTypeObject* type, std::vector<Value*> arguments);
/// `type(*arguments)` for an exception class. Of classes with more state in C than `args` (OSError, ImportError, ...) a
/// real exception is made, from constants. An `__init__` of the program does that itself.
ExceptionValue* new_exception(Tracer& tracer, PyTypeObject* type, const Arguments& arguments, bool has_own_init);
/// `BaseException.__init__(exception, *arguments)`, or the `__init__` of another C class.
void initialise_exception(Tracer& tracer, ExceptionValue* exception, const Arguments& arguments);
/// `str(exception)` and `repr(exception)` by C code.
Outcome exception_str(Tracer& tracer, ExceptionValue* exception);
Outcome exception_repr(Tracer& tracer, ExceptionValue* exception);
/// `exception.__traceback__`.
Value* traceback_of(Tracer& tracer, Value* exception);
/// Adds a traceback entry for a frame that an exception passes through, undoably.
void add_to_traceback(Tracer& tracer, ExceptionValue* exception, TracedFrame* frame, cpython::Offset at);
/// Makes the exception that is being handled (may be null) the `__context__` of a raised one, as `raise` does: without
/// cycles in the chain of contexts.
void set_context(Tracer& tracer, ExceptionValue* exception, Value* handled);
/// The value of a real exception that an operation executed while tracing has raised.
ExceptionValue* make_exception(Tracer& tracer, PyObject* real);

}  // namespace stator
