/// Iterators that existed before the trace: that of a loop that is resumed in its middle, or an argument.
#pragma once

#include "value/kinds/iterator.h"

namespace stator {

/// An iterator of a builtin class whose state can be read. Its items have sources relative to its current position, so
/// that the capture of one iteration of a loop serves other iterations. The real iterator is advanced as a side effect.
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
