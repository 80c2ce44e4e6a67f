#include "value/item_iterator.h"

#include "base/names.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "value/operations.h"
#include "value/undoable.h"

namespace stator {

namespace {

bool ends_iteration(const Raised& raised) {
    PyTypeObject* type = raised.exception->type();
    return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_IndexError)) ||
           PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration));
}

Task next_item(Tracer& tracer, ItemIterator* iterator) {
    Value* position = tracer.integer(iterator->position);
    try {
        Value* item = co_await operations::get_item(tracer, iterator->sequence, position);
        set_undoably(tracer, iterator->position, iterator->position + 1);
        co_return item;
    } catch (const Raised& raised) {
        if (!ends_iteration(raised)) throw;
    }
    set_undoably(tracer, iterator->sequence, nullptr);
    co_return tracer.exhausted();
}

}  // namespace

Outcome ItemIterator::next(Tracer& tracer) {
    if (sequence == nullptr) return tracer.exhausted();
    return tracer.start(next_item(tracer, this));
}

int ItemIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (sequence == nullptr) return IteratorValue::rebuild(plan);
    int to = rebuild_iterator(plan, this, sequence->rebuild(plan), 0);
    if (position > 0) rebuild_position(plan, to, class_, position);
    return to;
}

bool is_iterated_by_items(Tracer& tracer, Value* value) {
    if (value->kind != Kind::Object || value->type()->tp_iter != nullptr) return false;
    return operations::user_method(tracer, value, "__iter__") == nullptr &&
           operations::user_method(tracer, value, "__getitem__") != nullptr;
}

}  // namespace stator
