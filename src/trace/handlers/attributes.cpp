/// Attributes, items and operators.
#include "cpython/opcodes.h"
#include "trace/handlers/handlers.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/function.h"
#include "value/kinds/slice.h"
#include "value/protocol/operations.h"
#include "value/tensor/assertions.h"

namespace stator::handlers {

using bytecode::Instruction;

namespace {

/// Completes a load of a callable: pushes it as CALL expects one without a `self`.
void push_callable(Interpreter& t, BytecodeFrame& frame, const Instruction&, Value* callable) {
    if (!cpython::kDialect.null_above_callable) frame.push(t.null());
    frame.push(callable);
    if (cpython::kDialect.null_above_callable) frame.push(t.null());
    next(frame);
}

/// The same, but a bound method is pushed as its function and its `self`, as CPython does it.
void push_method(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction, Value* callable) {
    auto* method = cast<MethodValue>(callable);
    if (method == nullptr || method->source != nullptr) return push_callable(t, frame, instruction, callable);
    frame.push(method->function);
    frame.push(method->self);
    next(frame);
}

}  // namespace

void LoadAttr(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    t.finish(frame, operations::get_attribute(t, frame.top(), frame.code->name(instruction.arg)), 1);
}

void LoadMethod(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    t.finish(frame, operations::get_attribute(t, frame.top(), frame.code->name(instruction.arg)), 1, push_method);
}

namespace {

Task super_attribute(Tracer& tracer, Value* super, Value* type, Value* self, PyObject* name, bool two_arguments) {
    Arguments arguments;
    if (two_arguments) arguments.positional = {type, self};
    Value* proxy = nullptr;
    tracer.realize(super);
    if (super->object() == reinterpret_cast<PyObject*>(&PySuper_Type) && type->kind == Kind::Class)
        proxy = tracer.make<SuperValue>(static_cast<ClassValue*>(type)->held, self);
    else
        proxy = co_await operations::call(tracer, super, arguments);
    co_return co_await forwarded(operations::get_attribute(tracer, proxy, name));
}

}  // namespace

void LoadSuperAttr(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    t.realize(frame.top(0));
    Outcome outcome = t.start(super_attribute(t, frame.top(2), frame.top(1), frame.top(0),
                                              frame.code->name(instruction.arg), (instruction.extra & 2) != 0));
    t.finish(frame, outcome, 3, (instruction.extra & 1) != 0 ? push_method : Interpreter::push_result);
}

void StoreAttr(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Outcome outcome = operations::set_attribute(t, frame.top(0), frame.code->name(instruction.arg), frame.top(1));
    t.finish(frame, outcome, 2, Interpreter::drop_result);
}

void DeleteAttr(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Outcome outcome = operations::delete_attribute(t, frame.top(), frame.code->name(instruction.arg));
    t.finish(frame, outcome, 1, Interpreter::drop_result);
}

// --- items ----------------------------------------------------------------------------------------------------------

void BinarySubscr(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::get_item(t, frame.top(1), frame.top(0)), 2);
}

void StoreSubscr(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Outcome outcome = operations::set_item(t, frame.top(1), frame.top(0), frame.top(2));
    t.finish(frame, outcome, 3, Interpreter::drop_result);
}

void DeleteSubscr(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::delete_item(t, frame.top(1), frame.top(0)), 2, Interpreter::drop_result);
}

void BinarySlice(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    auto* slice = t.make<SliceValue>(frame.top(1), frame.top(0), t.none());
    t.finish(frame, operations::get_item(t, frame.top(2), slice), 3);
}

void StoreSlice(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    auto* slice = t.make<SliceValue>(frame.top(1), frame.top(0), t.none());
    t.finish(frame, operations::set_item(t, frame.top(2), slice, frame.top(3)), 4, Interpreter::drop_result);
}

void BuildSlice(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    bool has_step = instruction.arg == 3;
    Value* step = has_step ? frame.pop() : t.none();
    Value* stop = frame.pop();
    Value* start = frame.pop();
    frame.push(t.make<SliceValue>(start, stop, step));
    next(frame);
}

// --- operators ------------------------------------------------------------------------------------------------------

void UnaryPositive(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::unary(t, UnaryOperator::Positive, frame.top()), 1);
}

void UnaryNegative(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::unary(t, UnaryOperator::Negative, frame.top()), 1);
}

void UnaryInvert(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::unary(t, UnaryOperator::Invert, frame.top()), 1);
}

namespace {

void push_negated(Interpreter& t, BytecodeFrame& frame, const Instruction&, Value* truth) {
    frame.push(t.boolean(truth->object() != Py_True));
    next(frame);
}

}  // namespace

void UnaryNot(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value* truth = symbolic::truth_by_data(t, frame.top());
    if (truth != nullptr && symbolic::is_unbacked(truth)) return t.finish(frame, symbolic::inverted(t, truth), 1);
    t.finish(frame, operations::truth(t, frame.top()), 1, push_negated);
}

void ToBool(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    const bytecode::Index next = frame.at.next();
    const bool asserts = (*frame.code)[next].op == bytecode::Op::PopJumpIfTrue &&
                         (*frame.code)[next.next()].op == bytecode::Op::LoadAssertionError;
    if (asserts && assert_in_graph(t, frame.top())) return t.finish(frame, t.boolean(true), 1);
    Value* by_data = symbolic::truth_by_data(t, frame.top());
    t.finish(frame, by_data != nullptr ? by_data : operations::truth(t, frame.top()), 1);
}

void BinaryOp(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    constexpr int kInPlaceFrom = 13;  // NB_INPLACE_ADD: the in-place operators follow the others, in the same order
    Value *left = frame.top(1), *right = frame.top(0);
    if (instruction.arg >= kInPlaceFrom)
        t.finish(frame,
                 operations::in_place(t, static_cast<BinaryOperator>(instruction.arg - kInPlaceFrom), left, right), 2);
    else
        t.finish(frame, operations::binary(t, static_cast<BinaryOperator>(instruction.arg), left, right), 2);
}

void CompareOp(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto op = static_cast<Comparison>(instruction.arg);
    Value *left = frame.top(1), *right = frame.top(0);
    Value* unknown = symbolic::condition(t, op, left, right);
    t.finish(frame, unknown != nullptr ? Outcome(unknown) : operations::compare(t, op, left, right), 2);
}

void IsOp(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    bool same = operations::same_object(t, frame.top(1), frame.top(0));
    t.finish(frame, t.boolean(same != (instruction.arg == 1)), 2);
}

void ContainsOp(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Outcome outcome = operations::contains(t, frame.top(0), frame.top(1));
    t.finish(frame, outcome, 2, instruction.arg == 1 ? push_negated : Interpreter::push_result);
}

}  // namespace stator::handlers
