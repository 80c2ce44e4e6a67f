/// Tuples and lists, their subclasses included (named tuples, `torch.Size`, structseqs). Items of one that came from
/// outside get values when they are first read.
#pragma once

#include <vector>

#include "value/kinds/object.h"

namespace stator {

struct SequenceValue : ObjectValue {
    SequenceValue(Kind kind, PyTypeObject* type) : ObjectValue(kind, type) {}

    /// Null for outside items that were not read yet; use `item`.
    std::vector<Value*> items;

    /// Whether it is a tuple literal of the program's code: the same object in all calls.
    bool is_literal() const { return source == nullptr && outside != nullptr; }
    Value* item(Tracer& tracer, std::size_t index);
    /// All items, wrapped.
    const std::vector<Value*>& all(Tracer& tracer);

    void realize(Tracer& tracer) override;
    Ref<> as_constant(Tracer& tracer) override;
    /// Fields of named tuples and structseqs are items; other attributes follow Python's protocol.
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

struct TupleValue final : SequenceValue {
    static constexpr Kind kKind = Kind::Tuple;
    explicit TupleValue(PyTypeObject* type = &PyTuple_Type) : SequenceValue(kKind, type) {}
    Py_hash_t hash(Tracer& tracer) override;
};

struct ListValue final : SequenceValue {
    static constexpr Kind kKind = Kind::List;
    explicit ListValue(PyTypeObject* type = &PyList_Type) : SequenceValue(kKind, type) {}
    /// Items appended to an outside list that is not realized, so that its length needs no guard.
    std::vector<Value*> appended;
    /// While a list is sorted, the program sees it empty, and must not mutate it.
    bool is_in_sort = false;

    void set_item(Tracer& tracer, Value* key, Value* value) override;
    Outcome assign_item(Tracer& tracer, Value* key, Value* value) override;
    void delete_item(Tracer& tracer, Value* key) override;
    Outcome update(Tracer& tracer, BinaryOperator op, Value* other) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    /// Replaces the contents, undoably. `effect` makes the same change on an outside list.
    void assign(Tracer& tracer, std::vector<Value*> contents, Effect effect);
    /// The same if only the new contents are known.
    void assign(Tracer& tracer, std::vector<Value*> contents);
    void append(Tracer& tracer, Value* value);
    void insert(Tracer& tracer, std::size_t position, Value* value);
    Value* remove(Tracer& tracer, std::size_t position);
    Py_hash_t hash(Tracer& tracer) override;

    /// Empties the list while it is sorted; returns its items.
    std::vector<Value*> begin_sort(Tracer& tracer);
    /// Sets the sorted items.
    void end_sort(Tracer& tracer, std::vector<Value*> sorted);

  private:
    void refuse_in_sort(Tracer& tracer) const;
    void replace(Tracer& tracer, std::size_t position, Value* value);
};

inline SequenceValue* as_sequence(Value* value) {
    return value->kind == Kind::Tuple || value->kind == Kind::List ? static_cast<SequenceValue*>(value) : nullptr;
}

/// The method `append` or `extend` of an outside list that is not realized: it can grow without a guard on its length.
/// Null for any other object or name.
Value* method_for_growing(Tracer& tracer, Value* object, Borrowed<> name);

/// `list.extend` and `list += iterable`; pending if the iterable runs user code. Returns None.
Outcome extend(Tracer& tracer, ListValue* list, Value* iterable);

/// `torch.Size`.
PyTypeObject* torch_size_class();
/// A named tuple (a subclass of tuple with `_fields`) or a structseq.
bool has_fields(PyTypeObject* type);

TupleValue* make_tuple(Tracer& tracer, std::vector<Value*> items, PyTypeObject* type = &PyTuple_Type);
ListValue* make_list(Tracer& tracer, std::vector<Value*> items, PyTypeObject* type = &PyList_Type);

}  // namespace stator
