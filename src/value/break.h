/// Why an instruction could not be captured. Each kind has a stable name and a hint for the user.
#pragma once

#include <cstdint>
#include <string>

namespace stator {

enum class BreakKind : std::uint8_t {
    DataDependent,      // the program looks at a tensor's data
    OutsideMutation,    // something from outside the trace would be changed
    UnknownFunction,    // a C function that Stator does not model
    UnknownObject,      // an operation on an object that Stator does not model
    CustomAttribute,    // `__getattribute__`, or a `__getattr__` that can't be traced
    DisabledFunction,   // torch.compiler.disable and friends
    Instruction,        // an opcode without a handler
    UnsupportedTensor,  // an operation without a fake implementation, a tensor subclass, ...
    ReadInBackward,     // a deferred graph reads something that may have changed when it runs
    OperationFails,     // PyTorch rejects the arguments of an operation
    Rebuild,            // a live value can't be rebuilt after the graph
    GraphBreakCall,     // torch._dynamo.graph_break()
    InputOutput,        // print, logging, warnings, files
    CompiledByTorch,    // torch.compile made it: it runs as its own backend compiled it
    Finalizer,          // the program drops an object, and freeing it runs code
    Internal,           // an error of Stator's own
    // Not failures: the program leaves the frame that was entered.
    Yield,  // a generator yields
    Raise,  // an exception that nobody in the captured part catches
};

/// False for the kinds at which the program leaves the entered frame by itself.
inline bool is_failure(BreakKind kind) {
    return kind < BreakKind::Yield;
}

/// Thrown to give up on the current instruction.
struct Break {
    BreakKind kind;
    std::string reason;
    /// False if the instructions before can't be used either: then nothing is captured.
    bool can_exit = true;
};

/// `data-dependent`, ...: stable, the section names of docs/graph-breaks.md.
const char* name(BreakKind kind);
/// What the user can do about it.
const char* hint(BreakKind kind);

}  // namespace stator
