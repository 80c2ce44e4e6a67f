#include "value/tensor/applied_functions.h"

#include <string>
#include <vector>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/kinds/function.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/computing_functions.h"
#include "value/tensor/hooks.h"
#include "value/tensor/marked_functions.h"

namespace stator {

namespace {

/// Of PyTorch's own class.
PyObject* inherited(Tracer& tracer, const char* name) {
    static PyObject* const base = imported("torch.autograd.function", "Function");
    return tracer.keep(checked(PyObject_GetAttrString(base, name)));
}

struct Method {
    const char* name;
    bool has_context;      // if there is a `setup_context`
    bool is_called_later;  // in a backward pass
};

constexpr Method kMethods[] = {
    {"forward", false, false}, {"setup_context", true, false}, {"backward", true, true},
    {"vjp", true, true},       {"jvp", true, false},           {"vmap", true, false},
};

/// Where the program applies Functions that PyTorch has to call itself.
struct Place {
    const char* name;      // for messages
    bool is_called_again;  // in the backward pass, all of it
};

/// Looks at one class. Those that its methods apply are added to `applied`.
Task expect_methods_compute(Tracer& tracer, const Place& place, Value* function, std::vector<Value*>& applied) {
    Value* setup = co_await operations::get_attribute(tracer, function, interned("setup_context"));
    tracer.realize(setup);
    const bool has_setup = setup->object() != inherited(tracer, "setup_context");
    for (const Method& one : kMethods) {
        Value* found = co_await operations::get_attribute(tracer, function, interned(one.name));
        tracer.realize(found);
        if (found->object() == inherited(tracer, one.name)) continue;
        const std::string name = std::string("a torch.autograd.Function inside of a ") + place.name + ": " + one.name;
        auto* method = cast<FunctionValue>(found);
        if (method == nullptr || method->outside == nullptr)
            tracer.break_graph(BreakKind::UnsupportedTensor, name + " is no Python function");
        if (method->source != nullptr) tracer.guard({GuardKind::Identity, method->source, method->outside});
        for (std::size_t i = 0; i < method->default_count(); ++i) {
            Value* value = method->default_at(tracer, i);
            tracer.realize(value);
            if (!is_immutable_constant(tracer, value))
                tracer.break_graph(BreakKind::UnsupportedTensor, name + " has a default that is no constant");
        }
        const bool has_context = one.has_context || !has_setup;
        expect_only_computes(tracer, method,
                             {name, one.is_called_later || place.is_called_again, has_context, &applied});
    }
    Value* generated = co_await operations::get_attribute(tracer, function, interned("generate_vmap_rule"));
    tracer.realize(generated);
    co_return generated;
}

Task apply(Tracer& tracer, Place place, ClassValue* function, Arguments arguments) {
    std::vector<Value*> applied{function};
    for (std::size_t i = 0; i < applied.size(); ++i)
        co_await tracer.start(expect_methods_compute(tracer, place, applied[i], applied));
    Ref<> bound = checked(PyObject_GetAttrString(function->object(), "apply"));
    co_return co_await call_in_graph(tracer, tracer.keep(std::move(bound)), arguments);
}

Outcome start(Tracer& tracer, const Place& place, ClassValue* function, const Arguments& arguments) {
    Arguments given = arguments;
    given.positional.erase(given.positional.begin());
    return tracer.start(apply(tracer, place, function, std::move(given)));
}

}  // namespace

Outcome apply_in_transform(Tracer& tracer, ClassValue* function, const Arguments& arguments) {
    return start(tracer, {"torch.func transform", false}, function, arguments);
}

Outcome apply_in_checkpoint(Tracer& tracer, ClassValue* function, const Arguments& arguments) {
    return start(tracer, {"checkpointed function or a backward pass", true}, function, arguments);
}

}  // namespace stator
