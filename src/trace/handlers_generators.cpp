/// Generators, and what only coroutines use.
#include "cpython/opcodes.h"
#include "trace/handlers.h"
#include "value/operations.h"

namespace stator::handlers {

using bytecode::Instruction;

void ReturnGenerator(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.suspend_as_generator(frame);
}

void YieldValue(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
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
    if (value->object() != Py_None) cannot(t, "a value is sent to an iterator that is no generator");
    t.finish(frame, operations::next(t, receiver), 1, take_sent);
}

void EndSend(Interpreter&, BytecodeFrame& frame, const Instruction&) {
    Value* result = frame.pop();
    frame.pop();
    frame.push(result);
    next(frame);
}

void GetYieldFromIter(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::iterate(t, frame.top()), 1);
}

void CleanupThrow(Interpreter&, BytecodeFrame& frame, const Instruction&) {
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
