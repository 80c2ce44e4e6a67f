/// Measures time, for reports.
#pragma once

#include <chrono>
#include <cstdint>

namespace stator {

/// The time stamp counter, in its own unit. Reading it takes some nanoseconds, a fraction of `steady_clock`, so it can
/// be read around each operation.
inline std::uint64_t ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t count;
    asm volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

class Stopwatch {
  public:
    /// Seconds since the last lap.
    double lap() {
        auto now = std::chrono::steady_clock::now();
        std::uint64_t ticks_now = ticks();
        seconds_ = std::chrono::duration<double>(now - last_).count();
        ticks_ = ticks_now - last_ticks_;
        last_ = now;
        last_ticks_ = ticks_now;
        return seconds_;
    }
    /// Converts a number of ticks of the last lap to seconds.
    double seconds_of(std::uint64_t part) const {
        return ticks_ == 0 ? 0 : seconds_ * (static_cast<double>(part) / static_cast<double>(ticks_));
    }

  private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
    std::uint64_t last_ticks_ = ticks();
    double seconds_ = 0;
    std::uint64_t ticks_ = 0;
};

/// Adds the ticks of a scope to a sum, also when the scope is left by an exception.
class TimedScope {
  public:
    explicit TimedScope(std::uint64_t& sum) : sum_(sum) {}
    ~TimedScope() { sum_ += ticks() - start_; }
    TimedScope(const TimedScope&) = delete;
    TimedScope& operator=(const TimedScope&) = delete;

  private:
    std::uint64_t& sum_;
    std::uint64_t start_ = ticks();
};

}  // namespace stator
