/// `collections.deque`, created in the trace or outside.
#pragma once

#include <vector>

#include "cpython/objects.h"
#include "value/kinds/iterator.h"
#include "value/kinds/object.h"

namespace stator {

struct DequeValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Deque;
    explicit DequeValue(PyTypeObject* type) : ObjectValue(kKind, type) {}

    std::vector<Value*> items;
    Py_ssize_t longest = -1;  // maxlen; -1: none
    std::size_t changes = 0;  // the number of changes of its length, checked by iterators over it

    /// `popleft` and `pop`; needs an item.
    Value* take_end(Tracer& tracer, bool left);
    /// Replaces the contents, undoably. `deque.method(*arguments)` makes the same change on an outside deque.
    void assign(Tracer& tracer, std::vector<Value*> contents, const char* method, std::vector<Value*> arguments = {});
    /// Drops the item at the other end if that exceeds `maxlen`.
    void append(Tracer& tracer, Value* value);
    void append_left(Tracer& tracer, Value* value);
    /// The position of an item; raises IndexError.
    std::size_t position(Tracer& tracer, Value* index);

    void realize(Tracer& tracer) override;
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    void set_item(Tracer& tracer, Value* key, Value* value) override;
    void delete_item(Tracer& tracer, Value* key) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override { return static_cast<std::ptrdiff_t>(items.size()); }
    bool truth(Tracer& tracer) override { return !items.empty(); }
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    Outcome update(Tracer& tracer, BinaryOperator op, Value* other) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// Iterates over a deque from either end. Raises if the deque is mutated.
struct DequeIterator final : IteratorValue {
    DequeIterator(PyTypeObject* type, DequeValue* deque, bool reversed)
        : IteratorValue(type), deque(deque), reversed(reversed), changes_(deque->changes) {}
    DequeValue* deque;
    bool reversed;
    std::size_t taken = 0;
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;

  private:
    std::size_t changes_;
};

using cpython::deque_class;
DequeValue* make_deque(Tracer& tracer, std::vector<Value*> items, Py_ssize_t longest);
/// `deque.extend`; pending if the iterable runs user code. Returns `result`.
Outcome extend_deque(Tracer& tracer, DequeValue* deque, Value* iterable, bool left, Value* result);

}  // namespace stator
