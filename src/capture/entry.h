/// One captured path through a function: its guards, graph and plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/python_error.h"
#include "base/ref.h"
#include "base/shared.h"
#include "bytecode/instruction.h"
#include "capture/compiled_graph.h"
#include "cpython/frame.h"
#include "effect/plan.h"
#include "guard/program.h"
#include "torch/global_state.h"

namespace stator {

struct Entry : Counted {
    Entry(PyCodeObject* code, bytecode::Index at, torch_room::GlobalState state, GuardProgram guards)
        : code(Ref<PyCodeObject>::share(code)), at(at), state(std::move(state)), guards(std::move(guards)) {}

    Ref<PyCodeObject> code;  // a function's code can be replaced
    bytecode::Index at;      // where it starts
    torch_room::GlobalState state;
    bool checks_state = true;  // unless a `guard_filter_fn` has dropped that guard
    GuardProgram guards;
    /// False if the program could not be captured under these guards: such frames run uncompiled, without being traced
    /// again.
    bool is_captured = false;
    /// Such a frame called `torch._dynamo.skip_frame()`, or raised what it may raise for compilers alone: the functions
    /// that it calls are captured.
    bool captures_calls = false;
    /// `is_compiling()` was True for the program.
    bool is_for_compilers = false;
    CompiledGraph graph;
    Plan plan;

    /// The observer's id of the capture; empty if nothing observed it.
    Ref<> compile_id;

    /// The backend that `torch.compiler.set_stance` forced; empty if it did not.
    Ref<> forced_backend;

    /// The globals of the function that it was captured for, which its guards take for granted: a function with others
    /// can't use it. Borrowed, and only compared.
    PyObject* globals = nullptr;

    /// A weak reference to the instance whose method it was captured for, if it was a method: instances of a class do
    /// not compete for the entries of one function.
    Ref<> owner;

    /// Whether it has a graph; otherwise it only leads from one executed instruction to the next.
    bool has_graph() const { return bool(graph.compiled); }
    /// The reason why it does not match a frame.
    std::string explain(cpython::Frame* frame);
    bool matches(cpython::Frame* frame) {
        try {
            if (cpython::code_of(frame) != code.get() || (checks_state && !torch_room::matches(state))) return false;
            if (guards.check(cpython::slots(frame), reinterpret_cast<PyObject*>(cpython::function_of(frame))) &&
                (plan.dropped.empty() || frees_dropped_without_code(plan, guards.fetched().subspan(graph.input_count))))
                return true;
            guards.release();
            return false;
        } catch (const PythonError&) {
            // For a view whose base was modified in place, even `requires_grad` may raise.
            PyErr_Clear();
            return false;
        }
    }
    /// Every reference that it owns, for the garbage collector.
    void visit(const std::function<void(PyObject*)>& visitor) const;
};

}  // namespace stator
