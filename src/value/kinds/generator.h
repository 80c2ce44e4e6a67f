/// Generators and coroutines of traced functions. Between two steps they hold their suspended frame.
#pragma once

#include <memory>
#include <vector>

#include "cpython/offset.h"
#include "value/value.h"

namespace stator {

struct FunctionValue;

/// A suspended frame, as the trace room implements it.
struct SuspendedFrame {
    virtual ~SuspendedFrame() = default;

    /// Locals, cells and free variables; null where unbound.
    virtual const std::vector<Value*>& held_slots() const = 0;
    /// The value stack, the top one last; CPython's NULL as a value of kind `Null`.
    virtual const std::vector<Value*>& held_stack() const = 0;
    /// The yield at which it is suspended. Only of a frame that has started.
    virtual cpython::Offset waits_at() const = 0;
};

struct GeneratorValue final : Value {
    static constexpr Kind kKind = Kind::Generator;
    explicit GeneratorValue(PyTypeObject* type) : Value(kKind), class_(type) {}
    explicit GeneratorValue(PyGenObject* outside);

    /// A generator that existed before the trace. Its state is read, and it is an effect, when it is first advanced.
    PyObject* outside = nullptr;
    bool is_followed = false;

    PyTypeObject* class_;  // generator, coroutine or async_generator
    PyObject* name = nullptr;
    FunctionValue* function = nullptr;
    SuspendedFrame* frame = nullptr;  // null while it runs and when it has finished
    bool started = false;
    bool running = false;
    bool finished = false;
    /// Its return value: the value of `yield from` and of StopIteration.
    Value* returned = nullptr;
    /// The exception that it handles at its `yield` (inside `except`).
    Value* handled = nullptr;
    /// Raised inside when it is resumed.
    Value* thrown = nullptr;
    /// Of an asynchronous generator: what it yields next is an item, and nothing that an `await` in it passes on.
    bool yields_item = false;
    /// Of an asynchronous generator: its first step was made.
    bool is_observed = false;

    /// Whether it can be awaited.
    bool is_coroutine() const;
    /// What messages of Python call it.
    const char* noun() const;

    PyTypeObject* type() const override { return class_; }
    PyObject* object() const override { return outside; }
    void realize(Tracer& tracer) override;
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome iterate(Tracer& tracer) override;
    Outcome next(Tracer& tracer) override;
    bool truth(Tracer& tracer) override { return true; }
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
    /// Gives the real generator in register `to` the state that this one has now.
    void write_state(PlanBuilder& plan, int to) const;
};

/// Called before a generator is advanced or closed. The frame of one from outside becomes values with sources; the
/// graph breaks if that is not possible.
void follow_outside(Tracer& tracer, GeneratorValue* generator);

}  // namespace stator
