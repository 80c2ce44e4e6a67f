/// Generators, and the instructions of coroutines.
#include "base/python_error.h"
#include "cpython/opcodes.h"
#include "trace/handlers.h"
#include "value/kinds/exception.h"
#include "value/protocol/operations.h"

namespace stator::handlers {

using bytecode::Instruction;

void ReturnGenerator(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    constexpr int kAsynchronous = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
    if ((frame.function->code->co_flags & kAsynchronous) != 0)
        throw Break{BreakKind::Instruction, "the compiled function is asynchronous", /*can_exit=*/false};
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

}  // namespace

void Send(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value *receiver = frame.top(1), *value = frame.top(0);
    auto* generator = cast<GeneratorValue>(receiver);
    if (generator != nullptr) return t.finish(frame, t.push_generator(generator, value), 1, take_sent);
    if (value->object() != Py_None) cannot(t, "a value is sent to an iterator that is not a generator");
    t.finish(frame, operations::next(t, receiver), 1, take_sent);
}

}  // namespace stator::handlers

namespace stator {

namespace {

/// The iterator to which a suspended generator delegates by `yield from`; null if it does not.
Value* delegate_of(BytecodeFrame& frame) {
    constexpr int kAfterYieldFrom = 2;  // RESUME's operand
    const bytecode::Instruction& resume = (*frame.code)[frame.at];
    return resume.op == bytecode::Op::Resume && (resume.arg & 3) == kAfterYieldFrom ? frame.top() : nullptr;
}

bool is_generator_exit(Value* exception) {
    return PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit)) != 0;
}

}  // namespace

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
        Ref<> ignored = checked(PyObject_CallFunction(PyExc_RuntimeError, "s", "generator ignored GeneratorExit"));
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
    if (generator->running) raise(PyExc_ValueError, "generator already executing");
    if (generator->finished || !generator->started) {
        generator->finished = true;
        throw Raised{exception};
    }
    auto* frame = static_cast<BytecodeFrame*>(generator->frame);
    Value* delegate = delegate_of(*frame);
    if (delegate == nullptr) return throw_here(generator, exception);
    auto* inner = cast<GeneratorValue>(delegate);
    if (inner != nullptr) return start(throw_through_delegate(generator, inner, exception));
    if (delegate->kind == Kind::Iterator) return throw_here(generator, exception);
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
    t.finish(frame, operations::iterate(t, frame.top()), 1);
}

void CleanupThrow(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.realize(frame.top());
    throw Raised{frame.top()};
}

void GetAwaitable(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "await is used");
}

void GetAiter(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "async for is used");
}

void GetAnext(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "async for is used");
}

void BeforeAsyncWith(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "async with is used");
}

void EndAsyncFor(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "async for is used");
}

void AsyncGenWrap(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "an asynchronous generator is used");
}

}  // namespace stator::handlers
