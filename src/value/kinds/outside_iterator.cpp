#include "value/kinds/outside_iterator.h"

#include "base/text.h"
#include "cpython/iterators.h"
#include "value/effect_log.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/undoable.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// The source of each item is relative to the current position, so the number of steps is bounded.
constexpr std::int32_t kFarthest = 1000;

/// Counters change in each iteration, so they become symbolic numbers.
void mark_counters(Tracer& tracer, Source* place, PyObject* iterator) {
    auto part = [&](int index) {
        return tracer.provenance().child(place, Access::Item, nullptr, index, PyTuple_GET_ITEM(place->object, index));
    };
    if (cpython::counts(Py_TYPE(iterator))) {
        place->varies = true;
    } else if (Py_IS_TYPE(iterator, &PyEnum_Type)) {
        part(0)->varies = true;
        mark_counters(tracer, part(1), cpython::inner_iterator(iterator, 0));
    } else {
        for (int i = 0; PyObject* inner = cpython::inner_iterator(iterator, i); ++i)
            mark_counters(tracer, part(i), inner);
    }
}

/// Whether the trace has mutated the object that is iterated over. For other mutated objects, a guard checks that they
/// are not it in later calls.
bool has_changed_below(Tracer& tracer, const OutsideIterator* iterator) {
    for (int i = 0; PyObject* container = cpython::walked_over(iterator->outside, i); ++i) {
        Source* place = tracer.provenance().child(iterator->source, Access::WalkedOver, nullptr, i, container);
        Value* value = tracer.outside(place, container);
        tracer.realize(value);
        if (tracer.effects().has_mutated(value)) return true;
    }
    return false;
}

}  // namespace

void OutsideIterator::realize(Tracer& tracer) {
    tracer.guard({GuardKind::Type, source, reinterpret_cast<PyObject*>(class_)});
}

Outcome OutsideIterator::next(Tracer& tracer) {
    tracer.realize(this);
    if (is_at_end) return tracer.exhausted();
    bool has_changed = has_changed_below(tracer, this);
    Ref<> item;
    cpython::Ahead ahead = has_changed || taken >= kFarthest || source->access == Access::Pinned
                               ? cpython::Ahead::Unknown
                               : cpython::look_ahead(outside, taken, &item);
    if (ahead == cpython::Ahead::Unknown)
        tracer.break_graph(BreakKind::UnknownObject, "__next__ of the C class " + type_name(class_) + " is called");
    PyObject* held = item ? tracer.keep(std::move(item)) : nullptr;
    Source* place = tracer.provenance().child(source, Access::Upcoming, nullptr, taken, held);
    tracer.guard({held != nullptr ? GuardKind::Present : GuardKind::Absent, place});
    if (held != nullptr) mark_counters(tracer, place, outside);
    tracer.effects().log({PlanOp::Call, {this, tracer.none()}, builtin_function("next")});
    if (held == nullptr) {
        set_undoably(tracer, is_at_end, true);
        return tracer.exhausted();
    }
    set_undoably(tracer, taken, taken + 1);
    return tracer.outside(place, held);
}

int OutsideIterator::rebuild(PlanBuilder& plan) {
    return rebuild_outside(plan, this);
}

}  // namespace stator
