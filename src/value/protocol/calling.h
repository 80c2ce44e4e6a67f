/// Calls with a fixed number of positional arguments, for coroutines: the compiler can't keep the temporaries of a
/// braced argument list across a `co_await`.
#pragma once

#include "value/protocol/operations.h"

namespace stator {

template <class... Values>
Outcome call_with(Tracer& tracer, Value* callee, Values*... values) {
    Arguments arguments;
    (arguments.positional.push_back(values), ...);
    return operations::call(tracer, callee, arguments);
}

inline Outcome call_with_all(Tracer& tracer, Value* callee, std::vector<Value*> values) {
    Arguments arguments;
    arguments.positional = std::move(values);
    return operations::call(tracer, callee, arguments);
}

template <class... Values>
Outcome call_method_with(Tracer& tracer, Value* object, const char* name, Values*... values) {
    Arguments arguments;
    (arguments.positional.push_back(values), ...);
    return operations::call_method(tracer, object, name, arguments);
}

/// The name of a callable in error messages about its arguments: `module.function()`.
std::string callable_title(Value* callable);

}  // namespace stator
