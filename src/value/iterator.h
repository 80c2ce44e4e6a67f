/// Iterators made in the trace: over sequences, tables, and by `zip`, `map`, `enumerate` and the like.
#pragma once

#include <vector>

#include "value/value.h"

namespace stator {

/// Base of all iterators but generators. `next` may be pending where it runs the program's code.
struct IteratorValue : Value {
    static constexpr Kind kKind = Kind::Iterator;
    explicit IteratorValue(PyTypeObject* type) : Value(kKind), class_(type) {}

    PyTypeObject* class_;  // list_iterator, zip, ...

    PyTypeObject* type() const override { return class_; }
    Outcome iterate(Tracer& tracer) override { return this; }
    bool truth(Tracer& tracer) override { return true; }
    std::string print() const override;
};

/// Over the items of a sequence as they are at each step (a list may grow meanwhile).
struct SequenceIterator final : IteratorValue {
    SequenceIterator(PyTypeObject* type, Value* sequence) : IteratorValue(type), sequence(sequence) {}
    Value* sequence;
    std::size_t position = 0;
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

/// Over values that are all known now (keys of a dict, characters of a string, a range).
struct ItemsIterator final : IteratorValue {
    ItemsIterator(PyTypeObject* type, std::vector<Value*> items) : IteratorValue(type), items(std::move(items)) {}
    std::vector<Value*> items;
    std::size_t position = 0;
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

}  // namespace stator
