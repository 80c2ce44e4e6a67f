/// Guards walks over nested containers against cycles and against containers that are contained many times.
#pragma once

#include <algorithm>
#include <vector>

#include "value/value.h"

namespace stator {

class Nesting {
  public:
    explicit Nesting(const Value* container) {
        if (path_.empty()) walked_ = 0;
        ++walked_;
        path_.push_back(container);
    }
    ~Nesting() { path_.pop_back(); }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

    static std::size_t depth() { return path_.size(); }
    /// Whether walking into the container would recurse forever, too deeply, or for too long.
    static bool is_endless(const Value* container) {
        constexpr std::size_t kDeepest = 200, kMost = 100'000;
        return path_.size() > kDeepest || (!path_.empty() && walked_ > kMost) ||
               std::ranges::find(path_, container) != path_.end();
    }

  private:
    static inline thread_local std::vector<const Value*> path_;
    static inline thread_local std::size_t walked_ = 0;
};

}  // namespace stator
