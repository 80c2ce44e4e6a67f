/// Lists that a quick check is built from. For the files of this room only.
///
/// A server that replaces modules builds quick checks while it answers requests, and for a small model the allocations
/// were most of the work: so all levels share a list, and short ones are on the C stack.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/short_list.h"

namespace stator {

/// Items that are added in any order and visited level by level, those of a level in the order in which they were
/// added.
template <class Item>
class ByLevel {
  public:
    void add(const Item& item, std::int32_t place, std::int32_t level) {
        const auto index = static_cast<std::int32_t>(items_.size());
        while (levels_.size() <= static_cast<std::size_t>(level)) levels_.push_back({kNone, kNone});
        Chain& chain = levels_[level];
        if (chain.first == kNone)
            chain.first = index;
        else
            items_[chain.last].next = index;
        chain.last = index;
        items_.push_back({item, place, kNone});
    }
    std::size_t size() const { return items_.size(); }
    std::size_t levels() const { return levels_.size(); }
    template <class Visit>
    void visit(std::size_t level, Visit visit) const {
        if (level >= levels_.size()) return;
        for (std::int32_t i = levels_[level].first; i != kNone; i = items_[i].next)
            visit(items_[i].item, items_[i].place);
    }

  private:
    static constexpr std::int32_t kNone = -1;
    struct Linked {
        Item item;
        std::int32_t place;
        std::int32_t next;
    };
    struct Chain {
        std::int32_t first, last;
    };
    ShortList<Linked, 24> items_;
    ShortList<Chain, 16> levels_;
};

/// Finds pairs of words that were added before.
class PairsSeen {
  public:
    explicit PairsSeen(std::size_t most) : mask_(std::bit_ceil(2 * most + 2) - 1) {
        slots_.reserve(mask_ + 1);
        for (std::size_t i = 0; i <= mask_; ++i) slots_.push_back({0, 0});
    }
    /// False if the pair is there already. `one` is not 0.
    bool add(std::uintptr_t one, std::uint64_t other) {
        std::uint64_t hash = (one >> 4 ^ other * 0x9E3779B97F4A7C15U) * 0x9E3779B97F4A7C15U;
        for (std::size_t at = hash >> 32 & mask_;; at = (at + 1) & mask_) {
            Pair& slot = slots_[at];
            if (slot.one == one && slot.other == other) return false;
            if (slot.one == 0) return slot = {one, other}, true;
        }
    }

  private:
    struct Pair {
        std::uintptr_t one;
        std::uint64_t other;
    };
    std::size_t mask_;
    ShortList<Pair, 64> slots_;
};

}  // namespace stator
