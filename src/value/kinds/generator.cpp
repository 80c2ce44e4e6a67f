#include "value/kinds/generator.h"

#include "base/text.h"
#include "effect/plan.h"
#include "value/kinds/function.h"
#include "value/protocol/attributes.h"
#include "value/tracer.h"

namespace stator {

Outcome GeneratorValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    return generic_get_attribute(tracer, this, name);
}

bool GeneratorValue::is_coroutine() const {
    return (function->code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) != 0;
}

const char* GeneratorValue::noun() const {
    if (class_ == &PyCoro_Type) return "coroutine";
    return class_ == &PyAsyncGen_Type ? "async generator" : "generator";
}

Outcome GeneratorValue::iterate(Tracer& tracer) {
    if (class_ == &PyGen_Type) return this;
    tracer.raise(PyExc_TypeError, "'" + std::string(class_->tp_name) + "' object is not iterable");
}

Outcome GeneratorValue::next(Tracer& tracer) {
    if (class_ != &PyGen_Type)
        tracer.raise(PyExc_TypeError, "'" + std::string(class_->tp_name) + "' object is not an iterator");
    return tracer.push_generator(this, tracer.none());
}

int GeneratorValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    int made_by = function->rebuild(plan);
    // The function may reference this generator through a closure variable.
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Generator, {made_by});
    // The state of a running generator is that of an open frame.
    if (running) return to;
    if (finished) {
        plan.add(PlanOp::EndGenerator, {to});
        return to;
    }
    std::vector<std::int32_t> from{to, started && handled != nullptr ? handled->rebuild(plan) : -1};
    auto hold = [&](const std::vector<Value*>& values) {
        for (Value* value : values)
            from.push_back(value == nullptr || value->kind == Kind::Null ? -1 : value->rebuild(plan));
    };
    hold(frame->held_slots());
    if (started) hold(frame->held_stack());
    plan.add(PlanOp::FillGenerator, std::move(from), nullptr, started ? frame->waits_at().value : -1);
    return to;
}

std::string GeneratorValue::print() const {
    return noun() + (" " + std::string(utf8(name)));
}

}  // namespace stator
