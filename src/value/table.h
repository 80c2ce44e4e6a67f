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
    void clear(Tracer& tracer);
    std::size_t size() const { return live_; }
    /// Live entries in order.
    std::vector<Entry*> entries();
    const std::deque<Entry>& all() const { return entries_; }

  private:
    std::deque<Entry> entries_;  // addresses are stable
    std::unordered_multimap<Py_hash_t, std::size_t> index_;
    std::size_t live_ = 0;
};

}  // namespace stator
