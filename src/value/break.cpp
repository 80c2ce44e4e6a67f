#include "value/break.h"

namespace stator {

namespace {

struct Text {
    const char* name;
    const char* hint;
};

constexpr Text kTexts[] = {
    {"data-dependent", "Keep the decision in tensors (torch.where, masks), or move it out of the compiled function."},
    {"outside-mutation", "Return the new value instead of storing it, or do the change outside the compiled function."},
    {"unknown-function",
     "Mark it with torch.compiler.allow_in_graph or torch.compiler.assume_constant_result if that "
     "is what it is, or call it outside the compiled function."},
    {"unknown-object", "Use plain Python classes and containers inside the compiled function."},
    {"custom-attribute", "Use __getattr__ as a Python function instead of __getattribute__."},
    {"disabled-function", "Remove torch.compiler.disable from the function if it can be captured."},
    {"instruction", "Rewrite the statement, or move it out of the compiled function."},
    {"unsupported-tensor", "Use an operation that works without data, or move it out of the compiled function."},
    {"read-in-backward",
     "Read it where the function is called and hand the value over: keep it in the context (ctx.scale = SCALE), pass "
     "it "
     "as an argument, or let the function enclose a local variable that is assigned once."},
    {"operation-fails", "Call the operation with arguments that it takes."},
    {"rebuild", "Return tensors, numbers, strings and containers of those."},
    {"graph-break-call", "Remove the call of torch._dynamo.graph_break()."},
    {"input-output", "Move the output out of the compiled function."},
    {"compiled-by-torch",
     "Nothing has to be done: it keeps the backend that it was compiled with. Without torch.compile around it, it "
     "would "
     "be captured with the rest."},
    {"finalizer", "Keep the object until the compiled function has returned, or let it go before the call."},
    {"internal-error", "This is an error in Stator: please report it with the program that shows it."},
    {"yield", "Nothing has to be done: a generator's frame is left where it yields."},
    {"raise", "Look at what the program does only where torch.compiler.is_compiling() is false."},
};

}  // namespace

const char* name(BreakKind kind) {
    return kTexts[static_cast<int>(kind)].name;
}

const char* hint(BreakKind kind) {
    return kTexts[static_cast<int>(kind)].hint;
}

}  // namespace stator
