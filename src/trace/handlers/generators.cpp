/// Generators, and what coroutines have in common with them.
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/opcodes.h"
#include "trace/coroutines.h"
#include "trace/handlers/handlers.h"
#include "value/kinds/exception.h"
#include "value/protocol/operations.h"

namespace stator::handlers {

using bytecode::Instruction;

void ReturnGenerator(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.suspend_as_generator(frame);
}

void YieldValue(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    if (t.is_entered_generator(frame)) t.break_graph(BreakKind::Yield, "the generator yields");
    Value* value = frame.pop();
    next(frame);
    t.yield_from_frame(frame, value);
}

namespace {

void take_sent(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction, Value* result) {
    if (result != t.exhausted()) {
        frame.push(result);
        next(frame);
        return;
    }
    auto* generator = cast<GeneratorValue>(frame.top());
    Value* returned = generator == nullptr || generator->returned == nullptr ? t.none() : generator->returned;
    if (!cpython::kDialect.send_keeps_receiver) frame.pop();
    frame.push(returned);
    frame.at = instruction.target;
}

/// The next item of an iterator of the program. The value of its StopIteration is that of the `yield from` or `await`.
Task next_with_result(Interpreter& t, BytecodeFrame& frame, Value* method, Value* iterator) {
    Value* stop = nullptr;
    try {
        co_return co_await operations::call(t, method, Arguments::of(iterator));
    } catch (const Raised& raised) {
        if (!raised.is(PyExc_StopIteration)) throw;
        stop = raised.exception;
    }
    frame.held = co_await operations::get_attribute(t, stop, interned("value"));
    co_return t.exhausted();
}

/// Whether the receiver of an `await` was waiting when the trace began.
bool is_suspended_await(const BytecodeFrame& frame) {
    const Value* receiver = frame.top(1);
    const bool is_asynchronous = (frame.function->code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
    return is_asynchronous && receiver->source != nullptr && receiver->source->access == Access::Slot;
}

void take_sent_by_method(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction, Value* result) {
    if (result != t.exhausted()) return take_sent(t, frame, instruction, result);
    if (!cpython::kDialect.send_keeps_receiver) frame.pop();
    frame.push(frame.held);
    frame.at = instruction.target;
}

}  // namespace

void Send(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value *receiver = frame.top(1), *value = frame.top(0);
    auto* generator = cast<GeneratorValue>(receiver);
    if (generator != nullptr) return t.finish(frame, t.push_generator(generator, value), 1, take_sent);
    if (AsyncStepValue* step = as_async_step(receiver); step != nullptr) return send_to_step(t, frame, step, value);
    // Where a suspended `await` goes on. The coroutine, or what it waits for, is resumed as it is.
    if (receiver->type() == &PyCoro_Type || is_suspended_await(frame))
        t.break_graph(BreakKind::Yield, "a suspended await goes on");
    if (value->object() != Py_None) cannot(t, "a value is sent to an iterator that is not a generator");
    t.realize(receiver);
    if (Value* method = operations::user_method(t, receiver, "__next__"); method != nullptr)
        return t.finish(frame, t.start(next_with_result(t, frame, method, receiver)), 1, take_sent_by_method);
    t.finish(frame, operations::next(t, receiver), 1, take_sent);
}

}  // namespace stator::handlers

namespace stator {

namespace {

/// The iterator to which a suspended generator delegates by `yield from` or `await`; null if it does not.
Value* delegate_of(const BytecodeFrame& frame) {
    constexpr int kAfterYieldFrom = 2;  // RESUME's operand; 3 after `await`
    const bytecode::Instruction& resume = (*frame.code)[frame.at];
    return resume.op == bytecode::Op::Resume && (resume.arg & 3) >= kAfterYieldFrom ? frame.top() : nullptr;
}

bool is_generator_exit(const Value* exception) {
    return PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit)) != 0;
}

}  // namespace

bool is_delegating(const GeneratorValue* generator) {
    if (generator->frame == nullptr || !generator->started) return false;
    return delegate_of(static_cast<const BytecodeFrame&>(*generator->frame)) != nullptr;
}

/// Moves a frame behind a `yield from` whose delegate has returned.
void finish_delegation(BytecodeFrame& frame, Value* returned) {
    bytecode::Index at = frame.at;
    while ((*frame.code)[at].op != bytecode::Op::Send) at = {at.value - 1};
    if (!cpython::kDialect.send_keeps_receiver) frame.pop();
    frame.push(returned);
    frame.at = (*frame.code)[at].target;
}

Task Interpreter::throw_through_delegate(GeneratorValue* generator, GeneratorValue* delegate, Value* exception) {
    auto* frame = static_cast<BytecodeFrame*>(generator->frame);
    generator->running = true;
    Value* item = nullptr;
    Value* raised_inside = nullptr;
    try {
        item = co_await throw_into_generator(delegate, exception);
    } catch (const Raised& raised) {
        raised_inside = raised.exception;
    }
    generator->running = false;
    if (raised_inside == nullptr && item != exhausted() && is_generator_exit(exception)) {
        const std::string text = generator->noun() + std::string(" ignored GeneratorExit");
        Ref<> ignored = checked(PyObject_CallFunction(PyExc_RuntimeError, "s", text.c_str()));
        raised_inside = make_exception(*this, ignored.get());
    }
    if (raised_inside != nullptr) co_return co_await throw_here(generator, raised_inside);
    if (item != exhausted()) co_return item;
    if (is_generator_exit(exception)) co_return co_await throw_here(generator, exception);
    finish_delegation(*frame, delegate->returned == nullptr ? none() : delegate->returned);
    enter_generator(generator);
    stack_.frames.push_back(frame);
    co_return co_await Outcome::pending();
}

Outcome Interpreter::throw_here(GeneratorValue* generator, Value* exception) {
    generator->thrown = exception;
    return push_generator(generator, none());
}

Outcome Interpreter::throw_into_generator(GeneratorValue* generator, Value* exception) {
    follow_outside(generator);
    if (generator->running) raise(PyExc_ValueError, generator->noun() + std::string(" already executing"));
    if (generator->finished && generator->class_ == &PyCoro_Type && !is_generator_exit(exception))
        raise(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
    if (generator->finished || !generator->started) {
        generator->finished = true;
        throw Raised{exception};
    }
    auto* frame = static_cast<BytecodeFrame*>(generator->frame);
    Value* delegate = delegate_of(*frame);
    if (delegate == nullptr) return throw_here(generator, exception);
    auto* inner = cast<GeneratorValue>(delegate);
    if (inner != nullptr) return start(throw_through_delegate(generator, inner, exception));
    if (delegate->kind == Kind::Iterator && as_async_step(delegate) == nullptr) return throw_here(generator, exception);
    break_graph(BreakKind::UnknownObject, "an exception is thrown into a generator that is suspended in yield from");
}

}  // namespace stator

namespace stator::handlers {

void EndSend(Interpreter&, BytecodeFrame& frame, const Instruction&) {
    Value* result = frame.pop();
    frame.pop();
    frame.push(result);
    next(frame);
}

void GetYieldFromIter(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    auto* generator = cast<GeneratorValue>(frame.top());
    if (generator == nullptr || generator->class_ != &PyCoro_Type)
        return t.finish(frame, operations::iterate(t, frame.top()), 1);
    if ((frame.function->code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) == 0)
        t.raise(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
    next(frame);
}

void CleanupThrow(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.realize(frame.top());
    throw Raised{frame.top()};
}

}  // namespace stator::handlers
