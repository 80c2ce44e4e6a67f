/// Printing, logging and files.
#include "base/imported.h"
#include "value/builtins/logging_functions.h"
#include "value/builtins/registry.h"

namespace stator {

namespace {

Outcome prints(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const print = imported("builtins", "print");
    if (Value* done = LoggingFunctions().call(tracer, print, arguments)) return done;
    tracer.break_graph(BreakKind::InputOutput, "print() is called");
}

Outcome does_io(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::InputOutput, "a file, the console or the debugger is used");
}

Outcome logs(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::InputOutput, "a log record is written");
}

}  // namespace

void register_output(Handlers& handlers) {
    const char* builtins = "builtins";
    handlers.add(builtins, "print", prints);
    for (const char* name : {"open", "input", "breakpoint"}) handlers.add(builtins, name, does_io);
    handlers.add_method(imported_class("logging", "Logger"), "_log", logs);
}

}  // namespace stator
