#include "value/kinds/generator.h"

#include "base/text.h"
#include "effect/plan.h"
#include "value/kinds/function.h"
#include "value/kinds/rebuilding.h"
#include "value/protocol/attributes.h"
#include "value/tracer.h"

namespace stator {

GeneratorValue::GeneratorValue(PyGenObject* outside) : GeneratorValue(Py_TYPE(outside)) {
    this->outside = reinterpret_cast<PyObject*>(outside);
    name = outside->gi_qualname;
}

void GeneratorValue::realize(Tracer& tracer) {
    if (outside != nullptr) tracer.guard({GuardKind::Type, source, reinterpret_cast<PyObject*>(class_)});
}

Outcome GeneratorValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    // (The real generator is still where it was.)
    if (is_followed && utf8(name).starts_with("gi_"))
        tracer.break_graph(BreakKind::UnknownObject,
                           "'" + std::string(utf8(name)) + "' of a generator is read that the program has advanced");
    return generic_get_attribute(tracer, this, name);
}

bool GeneratorValue::is_coroutine() const {
    return function != nullptr && (function->code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) != 0;
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
    if (outside != nullptr) return rebuild_outside(plan, this);
    if (int known = plan.known(this); known >= 0) return known;
    int made_by = function->rebuild(plan);
    // The function may reference this generator through a closure variable.
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Generator, {made_by});
    write_state(plan, to);
    return to;
}

void GeneratorValue::write_state(PlanBuilder& plan, int to) const {
    // The state of a running generator is that of an open frame.
    if (running) return;
    if (finished) {
        plan.add(PlanOp::EndGenerator, {to});
        return;
    }
    std::vector<std::int32_t> from{to, started && handled != nullptr ? handled->rebuild(plan) : -1};
    auto hold = [&](const std::vector<Value*>& values) {
        for (Value* value : values)
            from.push_back(value == nullptr || value->kind == Kind::Null ? -1 : value->rebuild(plan));
    };
    hold(frame->held_slots());
    if (started) hold(frame->held_stack());
    plan.add(PlanOp::FillGenerator, std::move(from), nullptr, started ? frame->waits_at().value : -1);
}

std::string GeneratorValue::print() const {
    return noun() + (" " + std::string(utf8(name)));
}

}  // namespace stator
