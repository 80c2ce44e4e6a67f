/// What `sorted` and `list.sort` take and do.
#pragma once

#include <Python.h>

#include <optional>
#include <vector>

namespace stator::cpython {

/// Whether `reverse` is asked for its truth. Before 3.12 it has to be an int.
inline constexpr bool kReverseIsAnything = PY_VERSION_HEX >= 0x030C0000;

/// CPython's sort, one comparison at a time. Which pairs it compares differs between versions, and a program whose
/// comparisons do something sees it. So the real sort is asked: it sorts stand-ins, is given the answers so far, and is
/// stopped at the first comparison that has none.
class StepwiseSort {
  public:
    explicit StepwiseSort(std::size_t count) : count_(count) {}

    struct Pair {
        std::size_t left, right;
    };
    /// The items, by their first positions, of which it asks next whether `left < right`; nothing once all is sorted.
    std::optional<Pair> next();
    void answer(bool is_less) { answers_.push_back(is_less); }
    std::size_t answered() const { return answers_.size(); }
    /// Which item is where, when `next` was last called: what a sort leaves behind that fails there.
    const std::vector<std::size_t>& order() const { return order_; }

    /// Called by the stand-ins.
    PyObject* compare(Pair pair);

  private:
    std::size_t count_;
    std::size_t asked_ = 0;
    std::vector<bool> answers_;
    std::optional<Pair> open_;
    std::vector<std::size_t> order_;
};

}  // namespace stator::cpython
