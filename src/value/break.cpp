#include "value/break.h"

namespace stator {

namespace {

struct Text {
    const char* name;
    const char* hint;
};

constexpr Text kTexts[] = {
    {"data-dependent", "Keep the decision in tensors (torch.where, masks), or move it out of the compiled function."},
    {"outside-mutation",
     "Return the new value instead of storing it, or do the mutation outside of the compiled function."},
    {"unknown-function",
     "Mark it with torch.compiler.allow_in_graph if it takes and returns tensors, or with "
     "torch.compiler.assume_constant_result if it returns the same value every time, or call it outside of the "
     "compiled function."},
    {"unknown-object", "Use plain Python classes and containers inside the compiled function."},
    {"custom-attribute", "Use __getattr__ as a Python function instead of __getattribute__."},
    {"disabled-function", "Remove torch.compiler.disable from the function if it can be captured."},
    {"instruction", "Rewrite the statement, or move it out of the compiled function."},
    {"unsupported-tensor", "Use an operation that FakeTensor supports, or move it out of the compiled function."},
    {"read-in-backward",
     "Read it in the forward pass and pass the value on: store it in the context (ctx.scale = SCALE), pass it as an "
     "argument, or capture a local variable that is assigned once in the closure."},
    {"operation-fails",
     "Fix the arguments of the operation: the error message of PyTorch says what is wrong with them."},
    {"rebuild", "Return tensors, numbers, strings and containers of those."},
    {"graph-break-call", "Remove the call of torch._dynamo.graph_break()."},
    {"input-output", "Move the output out of the compiled function."},
    {"compiled-by-torch",
     "Nothing has to be done: it keeps the backend that it was compiled with. Remove torch.compile around it to "
     "capture it with the rest."},
    {"finalizer", "Keep the object alive until the compiled function returns, or drop it before the call."},
    {"internal-error", "This is a bug in Stator: please report it with a program that reproduces it."},
    {"yield", "Nothing has to be done: capture of a generator ends where it yields."},
    {"raise", "Check the code that runs only when torch.compiler.is_compiling() is true."},
};

}  // namespace

const char* name(BreakKind kind) {
    return kTexts[static_cast<int>(kind)].name;
}

const char* hint(BreakKind kind) {
    return kTexts[static_cast<int>(kind)].hint;
}

}  // namespace stator
