/// Activations of a trace: frames of Python functions, and tasks of builtins.
#pragma once

#include <vector>

#include "bytecode/code.h"
#include "value/kinds/exception.h"
#include "value/kinds/function.h"
#include "value/kinds/generator.h"
#include "value/task.h"

namespace stator {

class Interpreter;
struct BytecodeFrame;

/// Finishes an instruction with the value it waited for.
using Completion = void (*)(Interpreter& tracer, BytecodeFrame& frame, const bytecode::Instruction& instruction,
                            Value* result);

/// An entry of the call stack. All but the innermost wait for the one above.
struct Activation {
    explicit Activation(bool is_task) : is_task(is_task) {}
    virtual ~Activation() = default;
    const bool is_task;
};

/// A builtin that calls code of the program.
struct TaskFrame final : Activation {
    explicit TaskFrame(Task task) : Activation(true), task(std::move(task)) {}
    Task task;
    bool is_opaque = false;  // it waits, and only the coroutine knows how to continue
};

/// A Python function being interpreted: the state of a real frame, as values. A real frame can be filled with it at any
/// instruction.
struct BytecodeFrame final : Activation, SuspendedFrame {
    BytecodeFrame() : Activation(false) {}

    FunctionValue* function = nullptr;
    const bytecode::Code* code = nullptr;
    bytecode::Index at;         // the instruction under execution
    std::vector<Value*> slots;  // locals, cells and free variables; null where unbound
    std::vector<Value*> stack;  // the top one last
    GeneratorValue* generator = nullptr;
    // While an instruction waits: how many operands it will pop, and what it does with the result.
    int pops = 0;
    Completion complete = nullptr;
    Value* held = nullptr;                       // an intermediate value of the waiting instruction
    const graph::Location* location = nullptr;   // of the line last used for a node
    TracedFrame* traced = nullptr;               // once an exception has passed through it
    const graph::ModulePath* modules = nullptr;  // whose `forward` it is inside of

    Value* top(std::size_t depth = 0) const { return stack[stack.size() - 1 - depth]; }
    Value* pop() {
        Value* value = stack.back();
        stack.pop_back();
        return value;
    }
    void push(Value* value) { stack.push_back(value); }
    void drop(std::size_t count) { stack.erase(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end()); }
    int line() const { return (*code)[at].line; }

    const std::vector<Value*>& held_slots() const override { return slots; }
    const std::vector<Value*>& held_stack() const override { return stack; }
    cpython::Offset waits_at() const override { return (*code)[bytecode::Index{at.value - 1}].offset; }
};

}  // namespace stator
