/// One attempt to follow the program from an instruction on: what goes in, and what comes out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/arena.h"
#include "bytecode/instruction.h"
#include "cpython/frame.h"
#include "effect/plan.h"
#include "graph/node.h"
#include "guard/guard.h"
#include "source/knowledge.h"
#include "torch/global_state.h"
#include "value/break.h"
#include "value/tracer.h"

namespace stator {

/// A line of the user's program.
struct UserLine {
    Ref<PyCodeObject> code;
    int line = 0;
};

/// A call whose arguments do not fit the function: the program gets a TypeError.
struct MismatchedCall {
    std::string reason;
    Ref<PyCodeObject> function;
    std::vector<std::string> argument_types;  // `x: torch.Tensor` of those by keyword
    UserLine caller;
};

/// Why a trace stopped, where, and how the program got there (innermost frame first).
struct BreakReport {
    BreakKind kind = BreakKind::Internal;
    std::string reason;
    std::vector<UserLine> stack;
    /// False where the program could not be left where it broke: then nothing was captured.
    bool is_exit = false;
};

/// What a graph module holds under a name.
struct Attribute {
    std::string name;
    Ref<> tensor;
};

/// Where a trace starts, and what it may do.
struct TraceRequest {
    PyFunctionObject* function;
    PyCodeObject* code;
    PyObject* const* slots;  // of the frame, with its stack behind them
    bytecode::Index at;      // the instruction that the frame is about to execute
    std::size_t stack_depth = 0;
    bool is_generator = false;

    /// Parameters and buffers become attributes of the graph module instead of inputs.
    bool registers_attributes = false;
    /// No graph break is allowed. What `torch.compile` made is inlined as if it was not compiled.
    bool wants_one_graph = false;
    Tracer::RunBy run_by = Tracer::RunBy::Stator;

    /// Breaks right before the operation that will be node `serial`.
    struct Stop {
        std::uint32_t serial;
        PyObject* target;
    };
    std::optional<Stop> stop_before;

    static TraceRequest of(cpython::Frame* frame, bytecode::Index at);
};

/// How far the program was captured.
enum class TraceEnd : std::uint8_t {
    Returned,
    Broke,   // up to an instruction that has to be executed for real: the report says why
    Failed,  // not at all: the report says why
};

/// What a finished trace leaves behind: all that the later stages of a capture read.
struct Trace {
    std::unique_ptr<Arena> arena;  // of the sources
    TraceEnd end = TraceEnd::Failed;
    BreakReport report;  // of a break or a failure

    std::unique_ptr<graph::Graph> graph;
    std::vector<Guard> guards;
    std::vector<Source*> inputs;       // sources of the graph's placeholders, in order
    std::vector<std::size_t> written;  // positions of inputs that the graph writes to
    std::vector<Source*> distinct;     // what must not be one object: the inputs, and what was changed
    std::vector<Attribute> attributes;
    Plan plan;
    std::vector<Source*> fetched;  // what the plan fetches

    torch_room::Modes modes;             // of PyTorch, at the end
    bool reads_autocast = false;         // the program asks for settings of autocast, which may be off
    bool is_kept_as_captured = false;    // no compiler may have the graph
    bool told_compiling = false;         // the program asked whether it is compiled, and was told so
    bool inlined_torch_compile = false;  // it calls something that `torch.compile` made
    bool has_stopped = false;            // where `stop_before` says
    std::vector<MismatchedCall> mismatched_calls;

    std::size_t instructions = 0;
    double decoding_seconds = 0;
    std::uint64_t shape_ticks = 0;  // spent on inferring what comes out of operations: see `ticks`
};

/// An attempt that has to be made again, and what it has taught for that.
struct Again {
    std::string reason;
    Knowledge learned;
};

/// Follows the program. Throws PythonError for a KeyboardInterrupt, and nothing else.
std::variant<Trace, Again> trace(const TraceRequest& request, const Knowledge& knowledge);

}  // namespace stator
