/// Iterators that were there before the trace: those of a loop that is entered again in its middle, or an argument.
#pragma once

#include "value/kinds/iterator.h"

namespace stator {

/// An iterator of a builtin class that can be looked into. What it gives is read where the iterator stands, so that
/// what is captured for one round of a loop serves other rounds; the real one is moved on as an effect.
struct OutsideIterator final : IteratorValue {
    explicit OutsideIterator(PyObject* outside) : IteratorValue(Py_TYPE(outside)), outside(outside) {}

    PyObject* const outside;
    std::int32_t taken = 0;  // how many steps it is ahead of the real one
    bool is_at_end = false;

    void realize(Tracer& tracer) override;
    PyObject* object() const override { return outside; }
    Py_hash_t hash(Tracer& tracer) override { return Value::hash(tracer); }
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

}  // namespace stator
