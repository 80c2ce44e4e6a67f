/// Exceptions raised inside the trace.
#pragma once

#include "cpython/offset.h"
#include "value/kinds/object.h"

namespace stator {

/// A frame of the program that an exception went through, for tracebacks.
struct TracedFrame {
    PyCodeObject* code;
    PyObject* globals;
    bool is_entered;  // the real frame that the trace is of
    cpython::Offset at;
};

/// An entry of a traceback, and through `next` all those below it.
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
    /// A real exception, where a real operation raised it while tracing; then `arguments` are of its `args`.
    PyObject* real = nullptr;
    /// What `real` was made of, where the program made it.
    Arguments made_of;
    Value* cause = nullptr;
    Value* context = nullptr;
    bool suppress_context = false;
    /// `__traceback__`: the frames it went through so far; null if none.
    TracebackValue* traceback = nullptr;

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
/// `exception.__traceback__`.
Value* traceback_of(Tracer& tracer, Value* exception);
/// Notes that an exception went through a frame, as CPython does, undoably.
void add_to_traceback(Tracer& tracer, ExceptionValue* exception, TracedFrame* frame, cpython::Offset at);
/// What `raise` does with the exception that is being handled (may be null): it becomes the context, and no exception
/// is in the chain of its own contexts.
void set_context(Tracer& tracer, ExceptionValue* exception, Value* handled);
/// The value of a real exception that a real operation raised while tracing.
ExceptionValue* make_exception(Tracer& tracer, PyObject* real);

}  // namespace stator
