/// Iteration by `__getitem__` with 0, 1, 2, ... until it raises IndexError: what `iter` does for a class without
/// `__iter__`.
#pragma once

#include "value/iterator.h"

namespace stator {

struct ItemIterator final : IteratorValue {
    explicit ItemIterator(Value* sequence) : IteratorValue(&PySeqIter_Type), sequence(sequence) {}
    Value* sequence;  // null at the end
    std::int64_t position = 0;
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

/// Whether a value's class has a `__getitem__` of the program's own, and nothing better to iterate by.
bool is_iterated_by_items(Tracer& tracer, Value* value);

}  // namespace stator
