/// The cache of shape inference: interned metadata, and answers by key. A full store is replaced by an empty one; it
/// lives as long as an arena uses answers from it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/arena.h"
#include "base/ref.h"
#include "shape/infer.h"
#include "torch/meta.h"

namespace stator::shape {

class Store {
  public:
    Store();
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;

    /// The interned copy of this metadata.
    const torch_room::TensorMeta* intern(const torch_room::TensorMeta& meta);

    const Answer* find(std::span<const std::uint64_t> key, std::uint64_t hash) const;
    /// `kept` are the objects whose addresses are part of the key, or that the answer points to.
    const Answer* add(std::span<const std::uint64_t> key, std::uint64_t hash, Answer answer, std::vector<Ref<>> kept);

    bool is_full() const { return answers_.size() >= kMostAnswers || metas_.size() >= kMostMetas; }

    /// Keeps this store alive as long as the arena.
    static void pin(const std::shared_ptr<Store>& store, Arena& arena);

  private:
    static constexpr std::size_t kMostAnswers = 1 << 15;
    static constexpr std::size_t kMostMetas = 1 << 16;

    struct Entry {
        std::uint64_t hash;
        std::uint32_t key_start;
        std::uint32_t key_size;
        Answer answer;
        std::vector<Ref<>> kept;
    };
    /// Held by an arena.
    struct Pin {
        std::shared_ptr<Store> store;
        Arena* arena;
        Pin(std::shared_ptr<Store> store, Arena* arena) : store(std::move(store)), arena(arena) {}
        ~Pin();
    };

    void grow_answers();
    void grow_metas();

    static constexpr std::size_t kOwn = 64;

    std::deque<torch_room::TensorMeta> metas_;
    /// Some of the interned copies, found by their addresses.
    const torch_room::TensorMeta* own_[kOwn] = {};
    std::deque<Entry> answers_;
    std::vector<std::uint64_t> keys_;
    // Open addressing over indices into the deques, plus one; zero is free.
    std::vector<std::uint32_t> meta_slots_;
    std::vector<std::uint64_t> meta_hashes_;
    std::vector<std::uint32_t> answer_slots_;

    Arena* last_pinned_ = nullptr;
    std::unordered_set<Arena*> pinned_;
};

/// The store in use.
std::shared_ptr<Store>& current_store();

}  // namespace stator::shape
