#include "shape/store.h"

#include <cstddef>
#include <cstring>

namespace stator::shape {

Store::Store() : meta_slots_(256), answer_slots_(256) {}

const torch_room::TensorMeta* Store::intern(const torch_room::TensorMeta& meta) {
    // Most metadata comes from an earlier answer: then it is already the interned copy.
    const torch_room::TensorMeta*& own =
        own_[reinterpret_cast<std::uintptr_t>(&meta) / alignof(std::max_align_t) % kOwn];
    if (own == &meta) return own;
    std::uint64_t hash = torch_room::hash(meta);
    std::size_t mask = meta_slots_.size() - 1;
    std::size_t slot = hash & mask;
    while (std::uint32_t found = meta_slots_[slot]) {
        if (meta_hashes_[found - 1] == hash && metas_[found - 1] == meta) {
            if (&metas_[found - 1] == &meta) own = &meta;
            return &metas_[found - 1];
        }
        slot = (slot + 1) & mask;
    }
    metas_.push_back(meta);
    meta_hashes_.push_back(hash);
    meta_slots_[slot] = static_cast<std::uint32_t>(metas_.size());
    if (metas_.size() * 2 > meta_slots_.size()) grow_metas();
    return &metas_.back();
}

const Answer* Store::find(std::span<const std::uint64_t> key, std::uint64_t hash) const {
    std::size_t mask = answer_slots_.size() - 1;
    for (std::size_t slot = hash & mask; std::uint32_t found = answer_slots_[slot]; slot = (slot + 1) & mask) {
        const Entry& entry = answers_[found - 1];
        if (entry.hash == hash && entry.key_size == key.size() &&
            std::memcmp(&keys_[entry.key_start], key.data(), key.size_bytes()) == 0)
            return &entry.answer;
    }
    return nullptr;
}

const Answer* Store::add(std::span<const std::uint64_t> key, std::uint64_t hash, Answer answer,
                         std::vector<Ref<>> kept) {
    answers_.push_back({hash, static_cast<std::uint32_t>(keys_.size()), static_cast<std::uint32_t>(key.size()),
                        std::move(answer), std::move(kept)});
    keys_.insert(keys_.end(), key.begin(), key.end());
    if (answers_.size() * 2 > answer_slots_.size()) {
        grow_answers();
    } else {
        std::size_t mask = answer_slots_.size() - 1;
        std::size_t slot = hash & mask;
        while (answer_slots_[slot] != 0) slot = (slot + 1) & mask;
        answer_slots_[slot] = static_cast<std::uint32_t>(answers_.size());
    }
    return &answers_.back().answer;
}

void Store::grow_answers() {
    answer_slots_.assign(answer_slots_.size() * 2, 0);
    std::size_t mask = answer_slots_.size() - 1;
    for (std::size_t i = 0; i < answers_.size(); ++i) {
        std::size_t slot = answers_[i].hash & mask;
        while (answer_slots_[slot] != 0) slot = (slot + 1) & mask;
        answer_slots_[slot] = static_cast<std::uint32_t>(i + 1);
    }
}

void Store::grow_metas() {
    meta_slots_.assign(meta_slots_.size() * 2, 0);
    std::size_t mask = meta_slots_.size() - 1;
    for (std::size_t i = 0; i < metas_.size(); ++i) {
        std::size_t slot = meta_hashes_[i] & mask;
        while (meta_slots_[slot] != 0) slot = (slot + 1) & mask;
        meta_slots_[slot] = static_cast<std::uint32_t>(i + 1);
    }
}

void Store::pin(const std::shared_ptr<Store>& store, Arena& arena) {
    if (store->last_pinned_ == &arena) return;
    if (store->pinned_.insert(&arena).second) arena.make<Pin>(store, &arena);
    store->last_pinned_ = &arena;
}

Store::Pin::~Pin() {
    store->pinned_.erase(arena);
    if (store->last_pinned_ == arena) store->last_pinned_ = nullptr;
}

std::shared_ptr<Store>& current_store() {
    // Never destroyed: it holds Python objects, and static objects are destroyed after the interpreter.
    static auto* store = new std::shared_ptr<Store>(std::make_shared<Store>());
    return *store;
}

}  // namespace stator::shape
