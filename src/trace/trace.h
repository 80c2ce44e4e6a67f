/// One trace of the program from an instruction on: the request, and the result.
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

class TraceLog;

/// A line of the user's program.
struct UserLine {
    Ref<PyCodeObject> code;
    int line = 0;
};

/// A call whose arguments do not fit the function: the program gets a TypeError.
struct MismatchedCall {
    std::string reason;
    Ref<PyCodeObject> function;
    std::vector<std::string> argument_types;  // those of keywords with the name: `x: torch.Tensor`
    UserLine caller;
};

/// Why and where a trace stopped, with the stack of calls (innermost frame first).
struct BreakReport {
    BreakKind kind = BreakKind::Internal;
    std::string reason;
    std::vector<UserLine> stack;
    /// False if the trace could not be left at that instruction: then nothing was captured.
    bool is_exit = false;
};

/// A number or a size that changes between calls, and what is known of it at the end of the trace.
struct Symbol {
    const Expression* variable;
    const Expression* resolved;   // another number that it equals, or itself
    Range range;                  // of an int
    std::optional<Range> marked;  // the user says that it is dynamic, in this range: specializing it is an error
    SymbolOrigin origin = SymbolOrigin::Changed;
    int specialized_by = -1;  // the relation that made it a constant, by its position; -1 if there is none
    std::optional<std::int64_t> hint_override;  // the size that compilers should optimize for
};

/// A number that has no value while tracing: the graph computes it, or it is a size of an input that is marked so.
struct UnbackedSymbol {
    const Expression* number;
    const Expression* resolved;  // another number that it equals, or itself
    Range range;
    std::string origin;        // in words, if the graph computes it
    Source* source = nullptr;  // the size of an input; null if the graph computes it
    std::int64_t size = 0;     // in this call
    SizeMark mark;
};

/// A condition on such numbers that later calls have to satisfy, and the line of the program that needs it. There is no
/// line where the backend needs it.
struct Relation {
    const Expression* condition;
    UserLine where;
};

/// An input of the graph that is a random number, and how it is drawn: what is fetched for it is the generator.
struct DrawnInput {
    std::size_t input;
    Ref<> method;     // called with the generator
    Ref<> arguments;  // a tuple: the others
    Ref<> keywords;   // a dict, or empty
};

/// A tensor that the graph module holds as an attribute.
struct Attribute {
    std::string name;
    Ref<> tensor;
};

/// Where a trace starts, and what it may do.
struct TraceRequest {
    PyFunctionObject* function;
    PyCodeObject* code;
    PyObject* const* slots;  // of the frame, followed by its stack
    bytecode::Index at;      // the instruction that the frame is about to execute
    std::size_t stack_depth = 0;
    bool is_generator = false;

    /// Parameters and buffers become attributes of the graph module instead of inputs.
    bool registers_attributes = false;
    /// No graph break is allowed. Functions that `torch.compile` made are inlined.
    bool wants_one_graph = false;
    Tracer::RunBy run_by = Tracer::RunBy::Stator;
    DynamicPolicy dynamic;
    /// See `Tracer::captures_scalars` and `Tracer::captures_data_sizes`.
    bool captures_scalars = false;
    bool captures_data_sizes = false;
    /// Levels of functorch and of forward-mode differentiation may be entered by the program itself. They have to be
    /// left before the trace ends, or it fails.
    bool allows_levels_by_hand = false;
    bool captures_autograd = false;  // see `TorchModes::captures_autograd`

    /// Breaks the graph before the operation that would become node `serial`.
    struct Stop {
        std::uint32_t serial;
        PyObject* target;
    };
    std::optional<Stop> stop_before;

    /// What to note the steps of the trace in; null if nobody reads them.
    TraceLog* log = nullptr;

    static TraceRequest of(cpython::Frame* frame, bytecode::Index at);
};

/// How far the program was captured.
enum class TraceEnd : std::uint8_t {
    Returned,
    Broke,   // up to an instruction that the interpreter of CPython has to execute: the report says why
    Failed,  // not at all: the report says why
};

/// When a node was made, in `ticks`. The node may have been removed from the graph since.
struct NodeTicks {
    const graph::Node* node;
    std::uint64_t at;
};

/// The result of a finished trace, for the later stages of a capture.
struct Trace {
    std::unique_ptr<Arena> arena;  // of the sources
    TraceEnd end = TraceEnd::Failed;
    BreakReport report;  // of a break or a failure
    /// Of a failure: it is none to the program. The frame runs uncompiled, and the functions that it calls are
    /// captured.
    bool captures_calls = false;

    std::unique_ptr<graph::Graph> graph;
    std::vector<Guard> guards;
    std::vector<Source*> inputs;       // sources of the graph's placeholders, in order
    std::vector<DrawnInput> draws;     // in the order of the program
    std::vector<std::size_t> written;  // positions of inputs that the graph writes to
    std::vector<Source*> distinct;     // sources of objects that must differ: the inputs, mutated objects, ...
    std::vector<Attribute> attributes;
    Plan plan;
    std::vector<Source*> fetched;  // that the plan reads

    torch_room::Modes modes;              // of PyTorch, at the end
    bool reads_autocast = false;          // the program reads settings of autocast
    bool reads_numpy_errors = false;      // it must not run while numpy raises floating-point errors
    bool is_kept_as_captured = false;     // the graph must not be compiled
    bool is_compiling_was_true = false;   // `is_compiling()` was True for the program
    bool inlined_torch_compile = false;   // a function that `torch.compile` made
    bool forbids_breaks = false;          // it ends inside of `torch._dynamo.error_on_graph_break(True)`
    bool depends_on_data = false;         // the graph has numbers or sizes that depend on the data of tensors
    bool refuses_levels_by_hand = false;  // the program enters one: see TraceRequest
    bool has_stopped = false;             // before the node of `stop_before`
    std::vector<MismatchedCall> mismatched_calls;
    // Their expressions live as long as the graph, and print as long as the arena.
    std::vector<Symbol> symbols;
    std::vector<UnbackedSymbol> unbacked;
    std::vector<Ref<PyCodeObject>> traced_code;  // of the frame and of all calls that were inlined, in order
    std::string broken_mark;  // sizes of this call are not what the user has said of them; empty if they are
    std::vector<Relation> relations;

    std::size_t instructions = 0;
    double decoding_seconds = 0;
    std::vector<NodeTicks> node_ticks;
    std::uint64_t shape_ticks = 0;  // spent on inferring results of operations: see `ticks`
};

/// A trace that has to start again, and what it has learned for the next attempt.
struct Again {
    std::string reason;
    Knowledge learned;
    bool is_by_backend = false;
};

/// Traces the program. Throws PythonError for a KeyboardInterrupt, and nothing else.
std::variant<Trace, Again> trace(const TraceRequest& request, const Knowledge& knowledge);

}  // namespace stator
