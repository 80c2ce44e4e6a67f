#include "value/kinds/async_step.h"

#include "base/imported.h"
#include "cpython/coroutines.h"
#include "effect/plan.h"
#include "source/query.h"
#include "value/kinds/undoable.h"
#include "value/tracer.h"

namespace stator {

AsyncStepValue::AsyncStepValue(GeneratorValue* generator, What what, Value* given)
    : IteratorValue(what == What::Send ? &_PyAsyncGenASend_Type : cpython::asynchronous_throw_class()),
      generator(generator),
      what(what),
      given(given) {}

int AsyncStepValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (what != What::Send || finished) return IteratorValue::rebuild(plan);
    int of = generator->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    // Once it has started, it only passes on what is sent.
    PyObject* const make = started ? cpython::started_step_function() : cpython::step_function();
    int to = plan.add(PlanOp::Call, {of, started ? plan.constant(Py_None) : given->rebuild(plan)}, make);
    plan.remember(this, to);
    return to;
}

AsyncStepValue* make_async_step(Tracer& tracer, GeneratorValue* generator, AsyncStepValue::What what, Value* given) {
    if (!generator->is_observed) {
        static PyObject* const observes = imported("stator.coroutines", "observes_async_generators");
        Answer answer = ask(tracer.provenance(), observes);
        if (!answer.object) tracer.break_graph(BreakKind::UnknownFunction, "sys.get_asyncgen_hooks() raises an error");
        Value* is_observed = tracer.outside(answer.source, answer.object.get());
        tracer.realize(is_observed);
        if (is_observed->object() == Py_True)
            tracer.break_graph(BreakKind::UnknownFunction,
                               "an asynchronous generator starts under a hook of sys.set_asyncgen_hooks");
        set_undoably(tracer, generator->is_observed, true);
    }
    return tracer.make<AsyncStepValue>(generator, what, given);
}

}  // namespace stator
