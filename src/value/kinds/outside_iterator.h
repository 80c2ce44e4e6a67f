/// Iterators that existed before the trace: of a loop that the trace entered in its middle, or an argument.
#pragma once

#include "value/kinds/iterator.h"

namespace stator {

/// An iterator of a builtin class whose position can be read. Its items are sources relative to the position, so one
/// capture serves all iterations of a loop. Advancing the real iterator is a side effect.
struct OutsideIterator final : IteratorValue {
    explicit OutsideIterator(PyObject* outside) : IteratorValue(Py_TYPE(outside)), outside(outside) {}

    PyObject* const outside;
    std::int32_t taken = 0;  // how many steps it is ahead of the real iterator
    bool is_at_end = false;

    void realize(Tracer& tracer) override;
    PyObject* object() const override { return outside; }
    Py_hash_t hash(Tracer& tracer) override { return Value::hash(tracer); }
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

}  // namespace stator
