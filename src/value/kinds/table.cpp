#include "value/kinds/table.h"

#include <algorithm>

#include "base/text.h"
#include "value/kinds/address.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/protocol/identity.h"
#include "value/protocol/operations.h"

namespace stator {

namespace {

constexpr std::size_t kSearchedOneByOne = 8;
/// Stands for hashes that are not known; hardly that of any other key.
constexpr Py_hash_t kHashOfAddresses = 0x5b8d35f1c9a4e7;

}  // namespace

bool equal_keys(Tracer& tracer, Value* left, Value* right) {
    if (left == right) return true;
    tracer.realize(left);
    tracer.realize(right);
    left = as_plain_key(tracer, left);
    right = as_plain_key(tracer, right);
    if (AddressValue* address = as_address(left)) return equal_to_address(tracer, address, right);
    if (AddressValue* address = as_address(right)) return equal_to_address(tracer, address, left);
    // Tensors with equal hashes are the same tensor.
    if (left->kind == Kind::Tensor || right->kind == Kind::Tensor) return operations::same_object(tracer, left, right);
    if (left->kind == Kind::Tuple && right->kind == Kind::Tuple) {
        const auto& first = as_sequence(left)->all(tracer);
        const auto& second = as_sequence(right)->all(tracer);
        return std::ranges::equal(first, second, [&](Value* a, Value* b) { return equal_keys(tracer, a, b); });
    }
    Ref<> first = left->as_constant(tracer), second = right->as_constant(tracer);
    if (first && second) {
        int equal = PyObject_RichCompareBool(first.get(), second.get(), Py_EQ);
        if (equal < 0) tracer.raise_from_python();
        return equal != 0;
    }
    if (auto answer = equal_at_once(tracer, left, right)) return *answer;
    tracer.break_graph(BreakKind::UnknownObject, "two keys of classes " + type_name(left->type()) + " and " +
                                                     type_name(right->type()) + " have to be compared");
}

bool is_changing_int(const Value* key) {
    return symbolic::is(key) && !symbolic::is_unbacked(key) && PyLong_CheckExact(key->object());
}

/// That of the number in this call, for an int that changes.
Py_hash_t Table::hash_of(Tracer& tracer, Value* key) const {
    if (ints_ == ChangingInts::Kept && is_changing_int(key)) return PyObject_Hash(key->object());
    if (as_address(key) != nullptr) return kHashOfAddresses;
    tracer.realize(key);
    return key->hash(tracer);
}

Table::Entry* Table::find(Tracer& tracer, Value* key) {
    Py_hash_t hash = hash_of(tracer, key);
    return find(tracer, key, hash);
}

namespace {

/// Whether a key that is no number can't equal an int.
bool is_no_number(const Value* key) {
    PyTypeObject* const type = key->type();
    return type == &PyUnicode_Type || type == &PyBytes_Type || type == Py_TYPE(Py_None) || type == &PyTuple_Type;
}

}  // namespace

Table::Entry* Table::find_by_relations(Tracer& tracer, Value* key, Py_hash_t hash) {
    for (Entry& entry : entries_) {
        if (!entry.live) continue;
        if (entry.key == key) return &entry;
        const bool changes = is_changing_int(entry.key) || is_changing_int(key);
        if (changes && (is_no_number(entry.key) || is_no_number(key))) continue;
        if (Value* same = changes ? symbolic::compare(tracer, Comparison::Equal, entry.key, key) : nullptr) {
            if (same->truth(tracer)) return &entry;
            continue;
        }
        // (Equal keys of any class have equal hashes.)
        tracer.realize(entry.key);
        tracer.realize(key);
        if (entry.hash == hash && equal_keys(tracer, entry.key, key)) return &entry;
    }
    return nullptr;
}

/// The number of an address is not known, and so neither is its hash: it is compared with all keys.
Table::Entry* Table::find_beside_addresses(Tracer& tracer, Value* key, Py_hash_t hash) {
    for (Entry& entry : entries_) {
        const bool may_be_equal = entry.hash == hash || as_address(entry.key) != nullptr || as_address(key) != nullptr;
        if (entry.live && may_be_equal && equal_keys(tracer, entry.key, key)) return &entry;
    }
    return nullptr;
}

Table::Entry* Table::find(Tracer& tracer, Value* key, Py_hash_t hash) {
    if (has_changing_ints_ || (ints_ == ChangingInts::Kept && is_changing_int(key)))
        return find_by_relations(tracer, key, hash);
    if (has_addresses_ || as_address(key) != nullptr) return find_beside_addresses(tracer, key, hash);
    if (!indexed_) {
        for (Entry& entry : entries_)
            if (entry.live && entry.hash == hash && equal_keys(tracer, entry.key, key)) return &entry;
        return nullptr;
    }
    auto [first, last] = index_.equal_range(hash);
    for (; first != last; ++first) {
        Entry& entry = entries_[first->second];
        if (entry.live && equal_keys(tracer, entry.key, key)) return &entry;
    }
    return nullptr;
}

void Table::append(Value* key, Value* value, Py_hash_t hash) {
    has_changing_ints_ |= is_changing_int(key);
    has_addresses_ |= as_address(key) != nullptr;
    entries_.push_back({key, value, hash});
    ++live_;
    if (indexed_) {
        index_.emplace(hash, entries_.size() - 1);
    } else if (entries_.size() > kSearchedOneByOne) {
        for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].hash, i);
        indexed_ = true;
    }
}

void Table::insert(Tracer& tracer, Value* key, Value* value) {
    const Py_hash_t hash = hash_of(tracer, key);
    insert(tracer, key, value, hash);
}

void Table::insert(Tracer& tracer, Value* key, Value* value, Py_hash_t hash) {
    if (Entry* entry = find(tracer, key, hash)) {
        tracer.on_undo([entry, before = entry->value] { entry->value = before; });
        entry->value = value;
        return;
    }
    append(key, value, hash);
    tracer.on_undo([this] {
        std::size_t position = entries_.size() - 1;
        auto [first, last] = index_.equal_range(entries_.back().hash);
        for (; first != last; ++first)
            if (first->second == position) {
                index_.erase(first);
                break;
            }
        entries_.pop_back();
        --live_;
    });
}

bool Table::erase(Tracer& tracer, Value* key) {
    Entry* entry = find(tracer, key);
    if (entry == nullptr) return false;
    erase(tracer, entry);
    return true;
}

void Table::erase(Tracer& tracer, Entry* entry) {
    entry->live = false;
    --live_;
    tracer.on_undo([this, entry] {
        entry->live = true;
        ++live_;
    });
}

void Table::clear(Tracer& tracer) {
    for (Entry* entry : entries()) erase(tracer, entry);
}

void Table::move_to_front(Tracer& tracer, Entry* moved) {
    Value* key = moved->key;
    std::vector<Entry*> others = entries();
    std::erase(others, moved);
    Value* value = moved->value;
    erase(tracer, moved);
    insert(tracer, key, value);
    for (Entry* other : others) {
        Value *other_key = other->key, *other_value = other->value;
        erase(tracer, other);
        insert(tracer, other_key, other_value);
    }
}

std::vector<Table::Entry*> Table::entries() {
    std::vector<Entry*> live;
    live.reserve(live_);
    for (Entry& entry : entries_)
        if (entry.live) live.push_back(&entry);
    return live;
}

}  // namespace stator
