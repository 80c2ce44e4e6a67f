/// Exceptions raised inside the trace.
#pragma once

#include "cpython/offset.h"
#include "value/kinds/object.h"

namespace stator {

/// A frame that an exception passed through, for tracebacks.
struct TracedFrame {
    PyCodeObject* code;
    PyObject* globals;
    bool is_entered;  // the real frame that the trace started in
    cpython::Offset at;
};

/// An entry of a traceback; `next` is the entry below it.
struct TracebackValue final : Value {
    TracebackValue(TracedFrame* frame, cpython::Offset at, TracebackValue* next)
        : Value(Kind::Context), frame(frame), at(at), next_entry(next) {}
    TracedFrame* frame;
    cpython::Offset at;
    TracebackValue* next_entry;

    PyTypeObject* type() const override { return &PyTraceBack_Type; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override { return "traceback"; }
};

struct ExceptionValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Exception;
    explicit ExceptionValue(PyTypeObject* type) : ObjectValue(kKind, type) {}

    /// `args`.
    std::vector<Value*> arguments;
    /// The real exception, if an operation raised it while tracing; then `arguments` are its `args`.
    PyObject* real = nullptr;
    /// The arguments of `real`, if the program created it.
    Arguments made_of;
    Value* cause = nullptr;
    Value* context = nullptr;
    bool suppress_context = false;
    /// `__traceback__`: the frames that it passed through so far; null if none.
    TracebackValue* traceback = nullptr;

    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// A new exception with these `args`, made without calling code of the program.
ExceptionValue* make_exception(Tracer& tracer, PyTypeObject* type, std::vector<Value*> arguments);
/// `type(*arguments)` for an exception class. Classes whose C code stores more than `args` (OSError, ImportError, ...)
/// are instantiated while tracing, with constant arguments. A user-defined `__init__` is called by the caller.
ExceptionValue* new_exception(Tracer& tracer, PyTypeObject* type, const Arguments& arguments, bool has_own_init);
/// `BaseException.__init__(exception, *arguments)`, or the `__init__` of a C class.
void initialise_exception(Tracer& tracer, ExceptionValue* exception, const Arguments& arguments);
/// `str(exception)` and `repr(exception)` as C code computes them.
Outcome exception_str(Tracer& tracer, ExceptionValue* exception);
Outcome exception_repr(Tracer& tracer, ExceptionValue* exception);
/// `exception.__traceback__`.
Value* traceback_of(Tracer& tracer, Value* exception);
/// Adds a frame to the traceback of an exception, as CPython does. Undoable.
void add_to_traceback(Tracer& tracer, ExceptionValue* exception, TracedFrame* frame, cpython::Offset at);
/// Sets the context as `raise` does: the exception that is being handled (may be null) becomes the context, and cycles
/// in the chain of contexts are cut.
void set_context(Tracer& tracer, ExceptionValue* exception, Value* handled);
/// The value of a real exception that an operation raised while tracing.
ExceptionValue* make_exception(Tracer& tracer, PyObject* real);

}  // namespace stator
