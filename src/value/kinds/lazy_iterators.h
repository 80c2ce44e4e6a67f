/// The lazy iterators among the builtins: `enumerate`, `zip`, `map`, `filter`.
#pragma once

#include "value/kinds/iterator.h"

namespace stator {

struct EnumerateIterator final : IteratorValue {
    EnumerateIterator(Value* iterator, Value* count) : IteratorValue(&PyEnum_Type), iterator(iterator), count(count) {}
    Value* iterator;
    Value* count;  // an int
    bool immediate() const override { return is_immediate(iterator); }
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

struct ZipIterator final : IteratorValue {
    ZipIterator(std::vector<Value*> iterators, bool strict)
        : IteratorValue(&PyZip_Type), iterators(std::move(iterators)), strict(strict) {}
    std::vector<Value*> iterators;
    bool strict;
    bool immediate() const override { return !strict && all_immediate(iterators); }
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

struct MapIterator final : IteratorValue {
    MapIterator(Value* function, std::vector<Value*> iterators)
        : IteratorValue(&PyMap_Type), function(function), iterators(std::move(iterators)) {}
    Value* function;
    std::vector<Value*> iterators;
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

/// `filter(function, iterable)`, and `itertools.filterfalse` where `wanted` is false.
struct FilterIterator final : IteratorValue {
    FilterIterator(PyTypeObject* type, Value* function, Value* iterator, bool wanted)
        : IteratorValue(type), function(function), iterator(iterator), wanted(wanted) {}
    Value* function;  // None to filter by truth value
    Value* iterator;
    bool wanted;
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

}  // namespace stator
