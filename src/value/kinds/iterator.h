/// Iterators made in the trace: over sequences, tables and constants. Iterators over other iterators (`zip`, `map`,
/// ...) are in lazy_iterators.h and builtins/itertools.cpp.
#pragma once

#include <optional>
#include <vector>

#include "value/value.h"

namespace stator {

/// Base of all iterators except generators. `next` may be pending if it runs user code.
struct IteratorValue : Value {
    static constexpr Kind kKind = Kind::Iterator;
    explicit IteratorValue(PyTypeObject* type) : Value(kKind), class_(type) {}

    PyTypeObject* class_;  // list_iterator, zip, ...

    /// Whether `next` never runs user code and never raises.
    virtual bool immediate() const { return false; }

    PyTypeObject* type() const override { return class_; }
    Outcome iterate(Tracer& tracer) override { return this; }
    bool truth(Tracer& tracer) override { return true; }
    Py_hash_t hash(Tracer& tracer) override { return static_cast<Py_hash_t>(reinterpret_cast<std::size_t>(this) >> 4); }
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// Whether a value is an iterator whose `next` never runs user code and never raises.
bool is_immediate(const Value* iterator);
bool all_immediate(const std::vector<Value*>& iterators);

/// Iterates over the current items of a sequence (a list may grow meanwhile). `sequence` is null at the end.
struct SequenceIterator final : IteratorValue {
    SequenceIterator(PyTypeObject* type, Value* sequence) : IteratorValue(type), sequence(sequence) {}
    Value* sequence;
    std::size_t position = 0;
    bool immediate() const override;
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

/// Iterates over the items of a tuple or list in reverse.
struct ReverseIterator final : IteratorValue {
    ReverseIterator(PyTypeObject* type, Value* sequence, std::size_t left)
        : IteratorValue(type), sequence(sequence), left(left) {}
    Value* sequence;
    std::size_t left;
    bool immediate() const override { return true; }
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

/// Iterates over a fixed list of values.
struct ItemsIterator final : IteratorValue {
    ItemsIterator(PyTypeObject* type, std::vector<Value*> items) : IteratorValue(type), items(std::move(items)) {}
    std::vector<Value*> items;
    std::size_t position = 0;
    /// The iterable, if `iter(origin)` makes this iterator.
    Value* origin = nullptr;
    bool is_reversed = false;  // `reversed(origin)` makes it
    /// Else `class_(*made_of)` makes it (`itertools.product`, ...).
    Arguments made_of;
    bool immediate() const override { return true; }
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

/// Iterates over a constant sequence: a string, bytes, a range.
struct ConstantIterator final : IteratorValue {
    ConstantIterator(PyTypeObject* type, PyObject* constant, Py_ssize_t length)
        : IteratorValue(type), constant(constant), length_(length) {}
    PyObject* constant;  // kept alive by the trace
    Py_ssize_t position = 0;
    bool immediate() const override { return true; }
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;

  private:
    Py_ssize_t length_;
};

/// `iter(callable, sentinel)`.
struct CallIterator final : IteratorValue {
    CallIterator(Value* callable, Value* sentinel)
        : IteratorValue(&PyCallIter_Type), callable(callable), sentinel(sentinel) {}
    Value* callable;  // null at the end
    Value* sentinel;
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

/// Over an instance of a class with `__getitem__` and no `__iter__`: calls `__getitem__` with 0, 1, 2, ... until it
/// raises IndexError. Or `reversed` of such an instance, which starts at the last item.
struct IndexIterator final : IteratorValue {
    explicit IndexIterator(Value* sequence) : IteratorValue(&PySeqIter_Type), sequence(sequence) {}
    IndexIterator(Value* sequence, std::int64_t last)
        : IteratorValue(&PyReversed_Type), sequence(sequence), position(last) {}
    bool is_reversed() const { return class_ == &PyReversed_Type; }
    Value* sequence;  // null at the end
    std::int64_t position = 0;
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

/// The sequence of an `IndexIterator`; null at its end, and for other iterators.
Value* sequence_by_index(Value* iterator);

/// `iter(constant)`.
Value* iterate_constant(Tracer& tracer, Borrowed<> constant);

/// Whether its class supports `iter`.
bool is_iterable(const Value* value);
/// All items of an iterable, in order; none if iterating could raise or run code of the program.
std::optional<std::vector<Value*>> items_now(Tracer& tracer, Value* iterable);

/// Handlers of `__next__` and `__iter__` that are called by name on an iterator.
Outcome iterator_next(Tracer& tracer, const Arguments& arguments);
Outcome iterator_iter(Tracer& tracer, const Arguments& arguments);

/// `type(iter(sample))`; borrowed, never freed.
PyTypeObject* iterator_class_of(Borrowed<> sample);

/// Rebuilds `iter(iterable)`, advanced by `steps`.
int rebuild_iterator(PlanBuilder& plan, const void* value, int iterable, std::size_t steps);
/// Advances an iterator that runs no code of the program.
void rebuild_steps(PlanBuilder& plan, int iterator, std::size_t steps);
/// Calls the iterator's `__setstate__` with a position, once the plan has filled the container.
void rebuild_position(PlanBuilder& plan, int iterator, PyTypeObject* type, std::int64_t position);
/// Breaks the graph if the plan has to make an iterator over a container that it has not filled yet.
void expect_complete(const PlanBuilder& plan, const Value* container, const IteratorValue* iterator);

}  // namespace stator
