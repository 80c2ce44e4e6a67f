#include "value/tensor/nested_compile.h"

#include <algorithm>
#include <utility>

#include "base/imported.h"
#include "base/text.h"
#include "value/kinds/rebuilding.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// What `torch.compile(function, ...)` returns. The outermost compiler wins: a call of it is inlined. If it leaves the
/// captured region, it is compiled for real.
struct NestedCompileValue final : Value {
    NestedCompileValue(PyObject* compiler, Arguments given)
        : Value(Kind::Context), compiler(compiler), given(std::move(given)) {}

    PyObject* compiler;
    Arguments given;

    PyTypeObject* type() const override { return &PyFunction_Type; }
    Outcome call(Tracer& tracer, const Arguments& arguments) override {
        return operations::call(tracer, given.positional[0], arguments);
    }
    int rebuild(PlanBuilder& plan) override { return rebuild_by_call(plan, this, compiler, given); }
    std::string print() const override { return "a function compiled by the program"; }
};

/// Whether the compiler accepts the argument: the program gets its error otherwise.
bool is_known_argument(Tracer& tracer, const Keyword& keyword) {
    constexpr std::string_view kBackends[] = {"eager", "aot_eager", "inductor"};
    tracer.realize(keyword.value);
    PyObject* value = keyword.value->object();
    const std::string_view name = utf8(keyword.name);
    if (name == "fullgraph") return value == Py_True || value == Py_False;
    if (name == "dynamic") return value == Py_True || value == Py_False || value == Py_None;
    return name == "backend" && value != nullptr && PyUnicode_CheckExact(value) &&
           std::ranges::find(kBackends, utf8(value)) != std::end(kBackends);
}

Outcome compile(Tracer& tracer, PyObject* compiler, const Arguments& arguments) {
    for (Value* value : arguments.positional) tracer.realize(value);
    const bool is_usual =
        arguments.positional.size() == 1 && arguments.positional[0]->kind == Kind::Function &&
        std::ranges::all_of(arguments.keywords, [&](const Keyword& one) { return is_known_argument(tracer, one); });
    if (!is_usual)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "a compiler is called with something else than a function, or with unusual arguments");
    return tracer.make<NestedCompileValue>(compiler, arguments);
}

Outcome torchs_compile(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const compiler = imported("torch", "compile");
    return compile(tracer, compiler, arguments);
}

Outcome own_compile(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const compiler = imported("stator.api", "compile");
    return compile(tracer, compiler, arguments);
}

}  // namespace

void register_nested_compile(Handlers& handlers) {
    handlers.add("torch", "compile", torchs_compile);
    handlers.add("stator.api", "compile", own_compile);
}

}  // namespace stator
