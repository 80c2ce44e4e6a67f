/// Methods of coroutines and asynchronous generators; `aiter` and `anext`.
#include "base/names.h"
#include "value/builtins/generators.h"
#include "value/builtins/registry.h"
#include "value/kinds/async_step.h"
#include "value/kinds/exception.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

namespace {

using What = AsyncStepValue::What;

GeneratorValue* asynchronous_generator_of(Tracer& tracer, const Arguments& arguments) {
    auto* generator = arguments.positional.empty() ? nullptr : cast<GeneratorValue>(arguments.positional[0]);
    if (generator == nullptr || generator->class_ != &PyAsyncGen_Type)
        tracer.break_graph(BreakKind::UnknownObject,
                           "an asynchronous generator that was created before the call is used");
    return generator;
}

Outcome generator_anext(Tracer& tracer, const Arguments& arguments) {
    bind_builtin(tracer, "__anext__", arguments, {"self"}, 1, 1);
    return make_async_step(tracer, asynchronous_generator_of(tracer, arguments), What::Send, tracer.none());
}

Outcome generator_aiter(Tracer& tracer, const Arguments& arguments) {
    bind_builtin(tracer, "__aiter__", arguments, {"self"}, 1, 1);
    return asynchronous_generator_of(tracer, arguments);
}

Outcome generator_asend(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "asend", arguments, {"self", "value"}, 2, 2);
    return make_async_step(tracer, asynchronous_generator_of(tracer, arguments), What::Send, bound[1]);
}

Outcome generator_aclose(Tracer& tracer, const Arguments& arguments) {
    bind_builtin(tracer, "aclose", arguments, {"self"}, 1, 1);
    Value* exception = make_exception(tracer, reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit), {});
    return make_async_step(tracer, asynchronous_generator_of(tracer, arguments), What::Close, exception);
}

Task throw_later(Tracer& tracer, GeneratorValue* generator, std::vector<Value*> given) {
    Value* exception = co_await exception_to_throw(tracer, given[1], given[2], given[3]);
    co_return make_async_step(tracer, generator, What::Throw, exception);
}

Outcome generator_athrow(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "athrow", arguments, {"self", "typ", "val", "tb"}, 2, 4);
    return tracer.start(throw_later(tracer, asynchronous_generator_of(tracer, arguments), std::move(bound)));
}

/// `anext(iterator)` and `aiter(iterable)` call the special method of the class.
template <const char* (*kMethod)()>
Outcome call_special(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() != 1 || arguments.positional.size() != 1)
        tracer.break_graph(BreakKind::UnknownFunction, "anext() is called with a default");
    Value* value = arguments.positional[0];
    tracer.realize(value);
    const std::string_view name = kMethod();
    if (auto* generator = cast<GeneratorValue>(value); generator != nullptr && generator->class_ == &PyAsyncGen_Type)
        return name == "__anext__" ? generator_anext(tracer, arguments) : generator_aiter(tracer, arguments);
    Value* method = operations::user_method(tracer, value, kMethod());
    if (method == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction,
                           std::string(name) + " of class " + value->type()->tp_name + " is not a Python function");
    return operations::call(tracer, method, Arguments::of(value));
}

const char* anext_method() {
    return "__anext__";
}
const char* aiter_method() {
    return "__aiter__";
}

}  // namespace

void register_coroutines(Handlers& handlers) {
    handlers.add_method(&PyCoro_Type, "send", generator_send);
    handlers.add_method(&PyCoro_Type, "close", generator_close);
    handlers.add_method(&PyCoro_Type, "throw", generator_throw);

    handlers.add_method(&PyAsyncGen_Type, "__anext__", generator_anext);
    handlers.add_method(&PyAsyncGen_Type, "__aiter__", generator_aiter);
    handlers.add_method(&PyAsyncGen_Type, "asend", generator_asend);
    handlers.add_method(&PyAsyncGen_Type, "athrow", generator_athrow);
    handlers.add_method(&PyAsyncGen_Type, "aclose", generator_aclose);

    handlers.add("builtins", "anext", call_special<anext_method>);
    handlers.add("builtins", "aiter", call_special<aiter_method>);
}

}  // namespace stator
