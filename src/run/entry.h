/// One captured way through a function: what has to hold for it, and what to do then.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/python_error.h"
#include "base/ref.h"
#include "base/shared.h"
#include "bytecode/instruction.h"
#include "cpython/frame.h"
#include "effect/plan.h"
#include "graph/runner.h"
#include "guard/program.h"
#include "run/shared_memory.h"
#include "run/undo.h"
#include "torch/global_state.h"

namespace stator {

struct Entry : Counted {
    Entry(PyCodeObject* code, bytecode::Index at, torch_room::GlobalState state, GuardProgram guards)
        : code(Ref<PyCodeObject>::share(code)), at(at), state(std::move(state)), guards(std::move(guards)) {}

    Ref<PyCodeObject> code;  // a function's code can be replaced
    bytecode::Index at;      // where it starts
    torch_room::GlobalState state;
    GuardProgram guards;
    /// False where the program could not be captured under these guards: such frames run uncompiled, without being
    /// traced again and again.
    bool is_captured = false;
    /// What the backend made of the graph; empty where the graph has nothing to do.
    Ref<> compiled;
    std::size_t input_count = 0;
    /// Inputs of classes of the program's own: the graph gets plain views of them, and asks no class.
    std::vector<std::uint32_t> of_classes;
    /// The graph as it was captured, for inputs in the same memory and for gradients of gradients; empty where that is
    /// what runs anyway.
    Ref<> as_captured;
    SharedMemory shared_memory;
    bool has_told_of_sharing = false;
    /// Whether autograd records what the compiled graph does.
    bool is_recorded = false;
    /// Whether the graph as it was captured gives the same results when it runs once more on the same inputs.
    bool is_repeatable = false;
    /// The program sees something of a run of the graph that does not come to its end.
    bool is_seen = false;
    /// The graph calls operations that the program, or a library, has registered: these may raise anything.
    bool has_custom_operations = false;
    Undo undo;
    Plan plan;

    /// The backend that `torch.compiler.set_stance` put in the place of the callable's own; empty if it did not.
    Ref<> forced_backend;

    /// A weak reference to the instance whose method it was captured for, if it was one: many instances of a class do
    /// not compete for the entries of one function.
    Ref<> owner;

    /// Whether it runs a graph; else it is only a way from one real step to the next.
    bool has_graph() const { return bool(compiled); }
    /// Why it does not fit a frame, in words.
    std::string explain(cpython::Frame* frame);
    bool matches(cpython::Frame* frame) {
        try {
            if (cpython::code_of(frame) != code.get() || !torch_room::matches(state)) return false;
            if (guards.check(cpython::slots(frame), reinterpret_cast<PyObject*>(cpython::function_of(frame))) &&
                (plan.let_go.empty() || lets_go_quietly(plan, guards.fetched().subspan(input_count))))
                return true;
            guards.release();
            return false;
        } catch (const PythonError&) {
            // A view whose base was changed behind its back does not even tell whether it requires a gradient.
            PyErr_Clear();
            return false;
        }
    }
    /// Every reference that it owns, for the garbage collector.
    void visit(const std::function<void(PyObject*)>& visitor) const;
};

/// What is known of a graph that raised.
struct GraphFailure {
    bool has_happened = false;
    bool was_seen = false;  // the program may see something of what the graph did
    std::optional<graph::Failure> at;
    std::unique_ptr<torch_room::KeptState> before;  // what it may have changed; null if that was not kept

    /// Whether the graph's run left nothing behind that the program could see, or nothing any more.
    /// The exception that is set stays.
    bool undo() {
        ErrorAside aside;
        return !was_seen || (before && !(at && at->is_lasting) && before->restore());
    }
};

/// The plan alone, with what the graph gave and what the plan fetches.
Ref<> run_plan(Entry& entry, PyThreadState* thread, cpython::Frame* frame, std::span<PyObject* const> results,
               std::span<PyObject* const> fetched, std::vector<Ref<>>* registers);

/// Runs the graph and the plan of an entry whose guards have just held. Gives what the frame returns, or nothing: then
/// the plan's frames go on, and are made of `registers`. Throws PythonError.
Ref<> run_entry(Entry& entry, PyThreadState* thread, cpython::Frame* frame, std::vector<Ref<>>* registers,
                GraphFailure* failure);

}  // namespace stator
