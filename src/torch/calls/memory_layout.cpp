#include "torch/calls/memory_layout.h"

#include <algorithm>
#include <optional>

namespace stator::torch_room {

namespace {

/// More are not tried for one life: a row may have thousands.
constexpr int kMostTried = 16;

/// Adds lives to chunks, one after the other.
class LayoutMaker {
  public:
    explicit LayoutMaker(std::vector<std::size_t> in_use)
        : in_use_(std::move(in_use)), most_(std::ranges::max(in_use_)) {}

    void add(const Life& life) {
        std::optional<std::uint32_t> chunk;
        if (life.replaces >= 0) chunk = place_of_replaced(life);
        if (!chunk) chunk = best_for(life);
        if (!chunk) {
            chunk = static_cast<std::uint32_t>(layout_.chunks.size());
            layout_.chunks.push_back({life.bytes, life.first, life.last});
        } else {
            extend(layout_.chunks[*chunk], life);
        }
        layout_.chunk_of.push_back(*chunk);
    }

    Layout take() { return std::move(layout_); }

  private:
    /// Calls `visit(call, bytes)` for what the chunk takes more than now if the life is in it too. That may be less:
    /// where a life replaces another one, both are counted.
    template <class Visit>
    static bool all_changes(const SharedChunk& chunk, const Life& life, const Visit& visit) {
        const auto bytes = static_cast<std::ptrdiff_t>(std::max(chunk.bytes, life.bytes));
        const auto of_chunk = static_cast<std::ptrdiff_t>(chunk.bytes),
                   of_life = static_cast<std::ptrdiff_t>(life.bytes);
        // Nothing changes before, unless the chunk grows.
        const std::uint32_t first = life.bytes > chunk.bytes ? chunk.first : std::min(chunk.last, life.first);
        for (std::uint32_t call = first; call <= life.last; ++call) {
            const std::ptrdiff_t counted = (call <= chunk.last ? of_chunk : 0) + (call >= life.first ? of_life : 0);
            if (!visit(call, bytes - counted)) return false;
        }
        return true;
    }

    std::optional<std::uint32_t> place_of_replaced(const Life& life) const {
        const std::uint32_t chunk = layout_.chunk_of[static_cast<std::size_t>(life.replaces)];
        return wasted_by(layout_.chunks[chunk], life) ? std::optional(chunk) : std::nullopt;
    }

    /// What is taken and not in use, summed over all calls, if the life is in the chunk too. Empty if it does not fit.
    std::optional<std::ptrdiff_t> wasted_by(const SharedChunk& chunk, const Life& life) const {
        std::ptrdiff_t wasted = 0;
        const bool fits = all_changes(chunk, life, [&](std::uint32_t call, std::ptrdiff_t bytes) {
            wasted += bytes;
            return bytes <= 0 || in_use_[call] + static_cast<std::size_t>(bytes) <= most_;
        });
        return fits ? std::optional(wasted) : std::nullopt;
    }

    std::optional<std::uint32_t> best_for(const Life& life) const {
        std::optional<std::uint32_t> best;
        std::ptrdiff_t least = 0;
        int tried = 0;
        for (auto number = static_cast<std::uint32_t>(layout_.chunks.size()); number-- > 0 && tried < kMostTried;) {
            if (layout_.chunks[number].last >= life.first) continue;
            ++tried;
            const std::optional<std::ptrdiff_t> wasted = wasted_by(layout_.chunks[number], life);
            if (!wasted || (best && *wasted >= least)) continue;
            best = number;
            least = *wasted;
        }
        return best;
    }

    void extend(SharedChunk& chunk, const Life& life) {
        all_changes(chunk, life, [&](std::uint32_t call, std::ptrdiff_t bytes) {
            in_use_[call] = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(in_use_[call]) + bytes);
            return true;
        });
        chunk.bytes = std::max(chunk.bytes, life.bytes);
        chunk.last = life.last;
    }

    std::vector<std::size_t> in_use_;  // by call, with the chunks so far
    std::size_t most_;
    Layout layout_;
};

}  // namespace

Layout lay_out(const std::vector<Life>& lives, std::vector<std::size_t> in_use) {
    LayoutMaker maker(std::move(in_use));
    for (const Life& life : lives) maker.add(life);
    return maker.take();
}

}  // namespace stator::torch_room
