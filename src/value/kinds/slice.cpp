#include "value/kinds/slice.h"

#include "base/python_error.h"
#include "base/text.h"
#include "effect/plan.h"
#include "value/kinds/sequence.h"
#include "value/protocol/attributes.h"
#include "value/recorder.h"

namespace stator {

Ref<> SliceValue::as_constant(Tracer& tracer) {
    Ref<> parts[3];
    Value* values[] = {start, stop, step};
    for (int i = 0; i < 3; ++i) {
        tracer.realize(values[i]);
        parts[i] = values[i]->as_constant(tracer);
        if (!parts[i]) return nullptr;
    }
    return checked(PySlice_New(parts[0].get(), parts[1].get(), parts[2].get()));
}

Outcome SliceValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    std::string_view text = utf8(name);
    if (text == "start") return start;
    if (text == "stop") return stop;
    if (text == "step") return step;
    return generic_get_attribute(tracer, this, name);
}

/// Slices compare as the tuples of their parts.
Outcome SliceValue::compare(Tracer& tracer, Comparison op, Value* other) {
    tracer.realize(other);
    auto* slice = cast<SliceValue>(other);
    if (slice == nullptr) return nullptr;
    if (slice == this && (op == Comparison::Equal || op == Comparison::LessEqual || op == Comparison::GreaterEqual))
        return tracer.boolean(true);
    return make_tuple(tracer, {start, stop, step})
        ->compare(tracer, op, make_tuple(tracer, {slice->start, slice->stop, slice->step}));
}

graph::Argument SliceValue::as_argument(Tracer& tracer) {
    auto* items = tracer.recorder().graph_arena().make<graph::Argument::Items>();
    for (Value* part : {start, stop, step}) {
        if (part->kind != Kind::Constant) tracer.realize(part);  // a constant knows when it has to be
        items->values.push_back(part->as_argument(tracer));
    }
    return graph::Argument::of_items(graph::Argument::Kind::Slice, items);
}

int SliceValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return plan.fetch(source);
    int first = start->rebuild(plan), last = stop->rebuild(plan), stride = step->rebuild(plan);
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Slice, {first, last, stride});
    return to;
}

std::string SliceValue::print() const {
    return "slice(" + start->print() + ", " + stop->print() + ", " + step->print() + ")";
}

}  // namespace stator
