/// An insertion-ordered hash table over values, for dicts and sets. Known keys are compared as Python compares them;
/// other keys by identity, if their class doesn't define `__eq__`.
#pragma once

#include <iterator>
#include <memory>
#include <unordered_map>
#include <vector>

#include "value/value.h"

namespace stator {

class Table {
  public:
    struct Entry {
        Value* key;
        Value* value;  // null for sets, and for outside dicts until it is read
        Py_hash_t hash;
        bool live = true;
    };

    /// Entries with stable addresses. Most tables of a trace stay empty; an empty one allocates no memory.
    class Entries {
      public:
        template <class Owner, class Item>
        struct Iterator {
            using value_type = Entry;
            using difference_type = std::ptrdiff_t;
            using iterator_category = std::forward_iterator_tag;
            Owner* owner = nullptr;
            std::size_t position = 0;
            Item& operator*() const { return (*owner)[position]; }
            Item* operator->() const { return &(*owner)[position]; }
            Iterator& operator++() {
                ++position;
                return *this;
            }
            Iterator operator++(int) { return {owner, position++}; }
            friend bool operator==(const Iterator&, const Iterator&) = default;
        };

        std::size_t size() const { return size_; }
        Entry& operator[](std::size_t i) { return blocks_[i / kBlock][i % kBlock]; }
        const Entry& operator[](std::size_t i) const { return blocks_[i / kBlock][i % kBlock]; }
        Entry& back() { return (*this)[size_ - 1]; }
        void push_back(const Entry& entry) {
            if (size_ == blocks_.size() * kBlock) blocks_.push_back(std::make_unique<Entry[]>(kBlock));
            (*this)[size_++] = entry;
        }
        void pop_back() { --size_; }
        auto begin() { return Iterator<Entries, Entry>{this, 0}; }
        auto end() { return Iterator<Entries, Entry>{this, size_}; }
        auto begin() const { return Iterator<const Entries, const Entry>{this, 0}; }
        auto end() const { return Iterator<const Entries, const Entry>{this, size_}; }

      private:
        static constexpr std::size_t kBlock = 4;
        std::vector<std::unique_ptr<Entry[]>> blocks_;
        std::size_t size_ = 0;
    };

    /// Whether an int that changes between calls may be a key without being specialized on: for a dict, whose order
    /// does not depend on its keys. How such a key compares with each of the others is guarded then.
    enum class ChangingInts : std::uint8_t { Specialized, Kept };
    explicit Table(ChangingInts ints = ChangingInts::Specialized) : ints_(ints) {}

    /// Null if absent. Breaks the graph if a `__eq__` or `__hash__` of the program would have to run.
    Entry* find(Tracer& tracer, Value* key);
    /// Sets or replaces; an existing key keeps its position. Undoable.
    void insert(Tracer& tracer, Value* key, Value* value);
    /// The same for the key of an entry of another table, which is not hashed again.
    void insert(Tracer& tracer, const Entry& from, Value* value) { insert(tracer, from.key, value, from.hash); }
    /// False if absent. Undoable.
    bool erase(Tracer& tracer, Value* key);
    void erase(Tracer& tracer, Entry* entry);
    void clear(Tracer& tracer);
    /// Moves a live entry in front of all others. Undoable.
    void move_to_front(Tracer& tracer, Entry* entry);
    std::size_t size() const { return live_; }
    /// Live entries in order.
    std::vector<Entry*> entries();
    /// All entries, dead ones included: positions don't change when entries are added and erased.
    const Entries& all() const { return entries_; }
    Entry* at(std::size_t position) { return &entries_[position]; }

  private:
    Entry* find(Tracer& tracer, Value* key, Py_hash_t hash);
    void insert(Tracer& tracer, Value* key, Value* value, Py_hash_t hash);
    void append(Value* key, Value* value, Py_hash_t hash);
    Entry* find_by_relations(Tracer& tracer, Value* key, Py_hash_t hash);
    Entry* find_beside_addresses(Tracer& tracer, Value* key, Py_hash_t hash);
    Py_hash_t hash_of(Tracer& tracer, Value* key) const;

    ChangingInts ints_;
    bool has_changing_ints_ = false;
    bool has_addresses_ = false;
    Entries entries_;
    /// Positions by hash, once the table is too long for a linear search.
    std::unordered_multimap<Py_hash_t, std::size_t> index_;
    bool indexed_ = false;
    std::size_t live_ = 0;
};

/// Whether a key is an int that changes between calls, and is not specialized on.
bool is_changing_int(const Value* key);

/// Whether two keys of equal hash are one key. Breaks the graph if an `__eq__` of the program would have to run.
bool equal_keys(Tracer& tracer, Value* left, Value* right);

}  // namespace stator
