/// What `__anext__`, `asend`, `athrow` and `aclose` of an asynchronous generator return: an awaitable for one step of
/// it.
#pragma once

#include "value/kinds/generator.h"
#include "value/kinds/iterator.h"

namespace stator {

struct AsyncStepValue final : IteratorValue {
    enum class What : std::uint8_t { Send, Throw, Close };
    AsyncStepValue(GeneratorValue* generator, What what, Value* given);

    GeneratorValue* const generator;
    const What what;
    Value* const given;  // what is sent or thrown; null for `aclose`
    bool started = false;
    bool finished = false;

    int rebuild(PlanBuilder& plan) override;
};

/// Null for other values.
inline AsyncStepValue* as_async_step(Value* value) {
    return value->kind == Kind::Iterator ? dynamic_cast<AsyncStepValue*>(value) : nullptr;
}

/// A step of an asynchronous generator. Breaks the graph if something observes the first one: a hook of
/// `sys.set_asyncgen_hooks` that is not that of an event loop of asyncio.
AsyncStepValue* make_async_step(Tracer& tracer, GeneratorValue* generator, AsyncStepValue::What what, Value* given);

}  // namespace stator
