/// An insertion-ordered hash table over values: what dicts and sets are made of. Keys compare as Python would compare
/// them where both are known, and by identity where the class leaves it at that.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "value/value.h"

namespace stator {

class Table {
  public:
    struct Entry {
        Value* key;
        Value* value;  // null for sets, and for outside dicts until it is looked at
        Py_hash_t hash;
        bool live = true;
    };

    /// Null if absent. Breaks if a key's `__eq__` or `__hash__` is the program's own and would have to run.
    Entry* find(Tracer& tracer, Value* key);
    /// Sets or replaces; keeps the place of an existing key. Undoable.
    void insert(Tracer& tracer, Value* key, Value* value);
    /// False if absent. Undoable.
    bool erase(Tracer& tracer, Value* key);
    void erase(Tracer& tracer, Entry* entry);
    void clear(Tracer& tracer);
    /// Moves a live entry in front of all others. Undoable.
    void move_to_front(Tracer& tracer, Entry* entry);
    std::size_t size() const { return live_; }
    /// Live entries in order.
    std::vector<Entry*> entries();
    /// With the dead ones: a position in it stays what it is while entries are added and erased.
    const std::deque<Entry>& all() const { return entries_; }
    Entry* at(std::size_t position) { return &entries_[position]; }

  private:
    Entry* find(Tracer& tracer, Value* key, Py_hash_t hash);
    void append(Value* key, Value* value, Py_hash_t hash);

    std::deque<Entry> entries_;  // addresses are stable
    /// Positions by hash, kept from the moment the table is too long to be searched one by one.
    std::unordered_multimap<Py_hash_t, std::size_t> index_;
    bool indexed_ = false;
    std::size_t live_ = 0;
};

/// Whether two keys of equal hash are one key. Breaks where the program's own `__eq__` would have to say.
bool equal_keys(Tracer& tracer, Value* left, Value* right);

}  // namespace stator
