/// How long things take, for reports.
#pragma once

#include <chrono>

namespace stator {

class Stopwatch {
  public:
    /// Seconds since the last lap.
    double lap() {
        auto now = std::chrono::steady_clock::now();
        double seconds = std::chrono::duration<double>(now - last_).count();
        last_ = now;
        return seconds;
    }

  private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Adds the seconds that a scope takes to a sum, however the scope is left.
class TimedScope {
  public:
    explicit TimedScope(double& sum) : sum_(sum) {}
    ~TimedScope() { sum_ += watch_.lap(); }
    TimedScope(const TimedScope&) = delete;
    TimedScope& operator=(const TimedScope&) = delete;

  private:
    double& sum_;
    Stopwatch watch_;
};

}  // namespace stator
