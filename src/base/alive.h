/// How much of what captures leave behind exists, for tests that look for leaks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stator {

/// Arenas are those that have memory.
enum class Alive : std::uint8_t { Arenas, GuardPrograms, Runners };
inline constexpr std::array<const char*, 3> kAliveNames = {"arenas", "guard programs", "runners"};
inline std::array<std::atomic<std::int64_t>, kAliveNames.size()> alive_counts{};

inline void count_alive(Alive what, int change) {
    alive_counts[static_cast<std::size_t>(what)].fetch_add(change, std::memory_order_relaxed);
}

}  // namespace stator
