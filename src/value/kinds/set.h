/// Sets and frozensets.
#pragma once

#include "value/kinds/iterator.h"
#include "value/kinds/object.h"
#include "value/kinds/table.h"

namespace stator {

struct SetValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Set;
    explicit SetValue(PyTypeObject* type = &PySet_Type) : ObjectValue(kKind, type) {}

    Table table;

    bool is_frozen() const { return PyType_IsSubtype(class_, &PyFrozenSet_Type) != 0; }
    void add(Tracer& tracer, Value* element);
    /// `add` and `discard` without logging an effect: the caller logs one for the whole operation.
    void put(Tracer& tracer, Value* element);
    /// Whether Python's iteration order is unknown.
    bool order_is_lost() const { return order_is_lost_; }
    void take(Tracer& tracer, Table::Entry* entry);
    void merge(Tracer& tracer, SetValue* other);
    bool discard(Tracer& tracer, Value* element);
    void clear(Tracer& tracer);
    /// Removes and returns the element that Python would pop; null if the set is empty.
    Value* pop(Tracer& tracer);
    /// The elements in Python's iteration order.
    std::vector<Value*> in_order(Tracer& tracer);
    /// Whether the rebuilt set will iterate in this order.
    bool keeps_order(const std::vector<Value*>& order) const;
    /// A real set with the same history and therefore the same order as the program's set; null if an element is not a
    /// constant. Borrowed; the trace keeps it alive.
    PyObject* real(Tracer& tracer);
    /// Fills a new set with the elements of a real one. Elements that `left` or `right` hold are the same values.
    void take_over(Tracer& tracer, Ref<> real_set, SetValue* left = nullptr, SetValue* right = nullptr);

    void realize(Tracer& tracer) override;
    Ref<> as_constant(Tracer& tracer) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    int rebuild_hashed(PlanBuilder& plan);
    std::string print() const override;

  private:
    PyObject* twin(Tracer& tracer);
    /// Called before a set from outside is mutated. The layout of its hash table, and with it the iteration order, is
    /// not known from then on.
    void lose_order(Tracer& tracer);

    PyObject* real_ = nullptr;  // kept alive by the trace
    bool unknown_ = false;      // an element is not a constant
    bool order_is_lost_ = false;
};

/// Iterates over a set. Raises if the size changes.
struct SetIterator final : IteratorValue {
    SetIterator(Tracer& tracer, SetValue* set);
    SetValue* set;
    std::vector<Value*> elements;
    std::size_t position = 0;
    bool immediate() const override { return true; }
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
};

/// The real object for a value that is an element of a set; empty if its hash is not known while tracing.
Ref<> element_object(Tracer& tracer, Value* value);
SetValue* make_set(Tracer& tracer, const std::vector<Value*>& elements, PyTypeObject* type = &PySet_Type);
/// `left.name(right)` for `union`, `intersection`, `difference` and `symmetric_difference`. `right` is a set, or a list
/// of the items of any other iterable.
SetValue* combine_sets(Tracer& tracer, const char* name, SetValue* left, Value* right);
/// The same in place: `update`, `intersection_update`, ...
void update_set(Tracer& tracer, const char* name, SetValue* target, Value* other);
/// Whether every element of `left` is in `right`.
bool is_subset(Tracer& tracer, SetValue* left, SetValue* right);

}  // namespace stator
