/// What this thread has done besides running entries: `stator.watch` compares it before and after a call.
#pragma once

#include <cstdint>

namespace stator {

struct RunCounts {
    std::uint64_t captures = 0;    // that have begun
    std::uint64_t real_steps = 0;  // instructions executed at graph breaks
    std::uint64_t left = 0;        // frames left to CPython
};

/// Counted only where a call is slow anyway: an entry that runs to its end counts nothing.
inline thread_local RunCounts run_counts;

}  // namespace stator
