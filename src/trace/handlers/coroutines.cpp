/// `await`, `async for` and `async with`. What is ready runs on inside the trace; a real suspension leaves it as
/// `yield` does.
#include "trace/coroutines.h"
#include "base/names.h"
#include "cpython/opcodes.h"
#include "trace/handlers/handlers.h"
#include "value/kinds/exception.h"
#include "value/kinds/undoable.h"
#include "value/protocol/operations.h"

namespace stator {

namespace {

/// Whether the value can be resumed where an `await` needs an iterator; a coroutine may not come from `__await__`.
bool is_awaited_iterator(Tracer& tracer, Value* iterator) {
    tracer.realize(iterator);
    auto* generator = cast<GeneratorValue>(iterator);
    if (generator != nullptr && generator->is_coroutine())
        tracer.raise(PyExc_TypeError, "__await__() returned a coroutine");
    if (generator != nullptr) return generator->class_ == &PyGen_Type;
    return iterator->kind == Kind::Iterator || operations::user_method(tracer, iterator, "__next__") != nullptr;
}

Task await_by_method(Tracer& tracer, Value* method, Value* value) {
    Value* iterator = co_await operations::call(tracer, method, Arguments::of(value));
    if (!is_awaited_iterator(tracer, iterator))
        tracer.break_graph(BreakKind::UnknownObject,
                           std::string("__await__ returns an object of type ") + iterator->type()->tp_name);
    co_return iterator;
}

/// The iterator of `await value`.
Outcome awaited(Interpreter& t, Value* value) {
    t.realize(value);
    if (as_async_step(value) != nullptr) return value;
    if (auto* generator = cast<GeneratorValue>(value)) {
        if (!generator->is_coroutine())
            t.raise(PyExc_TypeError,
                    "object " + std::string(generator->class_->tp_name) + " can't be used in 'await' expression");
        if (generator->class_ == &PyCoro_Type && is_delegating(generator))
            t.raise(PyExc_RuntimeError, "coroutine is being awaited already");
        return value;
    }
    if (Value* method = operations::user_method(t, value, "__await__"); method != nullptr)
        return t.start(await_by_method(t, method, value));
    // What waits for something outside really suspends, sooner or later.
    t.break_graph(BreakKind::Yield, std::string("an object of type ") + value->type()->tp_name +
                                        " that was created before the call or in C is awaited");
}

Task asynchronous_iterator(Tracer& tracer, Value* method, Value* value) {
    Value* iterator = co_await operations::call(tracer, method, Arguments::of(value));
    tracer.realize(iterator);
    auto* generator = cast<GeneratorValue>(iterator);
    const bool is_asynchronous = generator != nullptr && generator->class_ == &PyAsyncGen_Type;
    if (!is_asynchronous && operations::user_method(tracer, iterator, "__anext__") == nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           std::string("__aiter__ returns an object of type ") + iterator->type()->tp_name);
    co_return iterator;
}

Task awaited_next(Interpreter& t, Value* method, Value* iterator) {
    Value* next = co_await operations::call(t, method, Arguments::of(iterator));
    if (auto* generator = cast<GeneratorValue>(next); generator != nullptr && !generator->is_coroutine())
        t.break_graph(BreakKind::UnknownObject, "__anext__ returns a generator");
    co_return co_await awaited(t, next);
}

}  // namespace

}  // namespace stator

namespace stator::handlers {

using bytecode::Instruction;

void GetAwaitable(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, awaited(t, frame.top()), 1);
}

void GetAiter(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value* iterable = frame.top();
    t.realize(iterable);
    auto* generator = cast<GeneratorValue>(iterable);
    if (generator != nullptr && generator->class_ == &PyAsyncGen_Type) return next(frame);
    Value* method = operations::user_method(t, iterable, "__aiter__");
    if (method == nullptr)
        cannot(t, "async for iterates over an object of a class without an __aiter__ that is a Python function");
    t.finish(frame, t.start(asynchronous_iterator(t, method, iterable)), 1);
}

void GetAnext(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value* iterator = frame.top();
    t.realize(iterator);
    if (auto* generator = cast<GeneratorValue>(iterator))
        return t.finish(frame, make_async_step(t, generator, AsyncStepValue::What::Send, t.none()), 0);
    Value* method = operations::user_method(t, iterator, "__anext__");
    if (method == nullptr)
        cannot(t, "async for iterates over an object of a class without an __anext__ that is a Python function");
    t.finish(frame, t.start(awaited_next(t, method, iterator)), 0);
}

void EndAsyncFor(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value* exception = frame.top();
    t.realize(exception);
    if (!Raised{exception}.is(PyExc_StopAsyncIteration)) throw Raised{exception};
    frame.drop(2);
    next(frame);
}

void AsyncGenWrap(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    if (t.is_entered_generator(frame)) t.break_graph(BreakKind::Yield, "the asynchronous generator yields");
    set_undoably(t, frame.generator->yields_item, true);
    next(frame);
}

namespace {

/// One `send` to a step of an asynchronous generator. Only this coroutine knows how to continue, so a graph break
/// inside of the generator is one at the `await`, and never leaves a generator that is running.
Task run_step(Interpreter& t, AsyncStepValue* step, Value* sent) {
    using What = AsyncStepValue::What;
    GeneratorValue* generator = step->generator;
    const bool is_first = !step->started;
    set_undoably(t, step->started, true);
    try {
        if (!is_first) co_return co_await t.push_generator(generator, sent);
        if (step->what != What::Send) co_return co_await t.throw_into_generator(generator, step->given);
        const bool is_given = sent->object() == Py_None;
        co_return co_await t.push_generator(generator, is_given ? step->given : sent);
    } catch (const Raised& raised) {
        set_undoably(t, step->finished, true);
        const bool is_closed = raised.is(PyExc_StopAsyncIteration) || raised.is(PyExc_GeneratorExit);
        if (step->what != What::Close || !is_closed) throw;
    }
    co_return t.exhausted();
}

void take_from_step(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction, Value* result) {
    AsyncStepValue* step = as_async_step(frame.top());
    const bool is_item = step->generator->yields_item, closes = step->what == AsyncStepValue::What::Close;
    if (result != t.exhausted() && !is_item) {
        frame.push(result);
        return next(frame);
    }
    set_undoably(t, step->finished, true);
    set_undoably(t, step->generator->yields_item, false);
    if (closes && is_item) t.raise(PyExc_RuntimeError, "async generator ignored GeneratorExit");
    if (!closes && !is_item) throw Raised{make_exception(t, stop_async_iteration(), {})};
    if (!cpython::kDialect.send_keeps_receiver) frame.pop();
    frame.push(closes ? t.none() : result);
    frame.at = instruction.target;
}

}  // namespace

void send_to_step(Interpreter& t, BytecodeFrame& frame, AsyncStepValue* step, Value* value) {
    using What = AsyncStepValue::What;
    GeneratorValue* generator = step->generator;
    t.realize(value);
    if (step->finished) cannot(t, "a step of an asynchronous generator is awaited twice");
    if (generator->running || (!step->started && is_delegating(generator)))
        cannot(t, "an asynchronous generator is resumed while it is running");
    if (!step->started && generator->finished) {
        set_undoably(t, step->finished, true);
        if (step->what == What::Close) return t.finish(frame, t.exhausted(), 1, take_from_step);
        if (step->what == What::Throw) cannot(t, "athrow() of an asynchronous generator that has ended");
    }
    t.finish(frame, t.start(run_step(t, step, value)), 1, take_from_step);
}

}  // namespace stator::handlers
