/// Generators of functions that are traced. Their frame is the tracer's; between two steps it waits here.
#pragma once

#include <memory>

#include "value/value.h"

namespace stator {

/// What the trace room keeps of a suspended frame.
struct SuspendedFrame {
    virtual ~SuspendedFrame() = default;
};

struct GeneratorValue final : Value {
    static constexpr Kind kKind = Kind::Generator;
    explicit GeneratorValue(PyTypeObject* type) : Value(kKind), class_(type) {}

    PyTypeObject* class_;  // generator, coroutine or async_generator
    PyObject* name = nullptr;
    SuspendedFrame* frame = nullptr;  // null while it runs and when it has finished
    bool started = false;
    bool running = false;
    bool finished = false;
    /// What it returned: the value of `yield from` and of StopIteration.
    Value* returned = nullptr;
    /// The exception that it handles where it waits (a `yield` inside `except`).
    Value* handled = nullptr;
    /// To be raised inside as soon as it goes on.
    Value* thrown = nullptr;

    PyTypeObject* type() const override { return class_; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome iterate(Tracer& tracer) override { return this; }
    Outcome next(Tracer& tracer) override;
    bool truth(Tracer& tracer) override { return true; }
    std::string print() const override;
};

}  // namespace stator
