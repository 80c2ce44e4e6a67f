/// `sorted` and `list.sort`.
#pragma once

#include <Python.h>

#include <optional>
#include <vector>

namespace stator::cpython {

/// Whether `reverse` is converted with `bool`. Before 3.12 it has to be an int.
inline constexpr bool kReverseIsAnything = PY_VERSION_HEX >= 0x030C0000;

/// CPython's sort, one comparison at a time. Which pairs it compares differs between versions, and is visible to a
/// program whose comparisons have side effects. So the real sort is used: it sorts stand-ins, with the answers so far,
/// and is stopped at the first comparison without an answer.
class StepwiseSort {
  public:
    explicit StepwiseSort(std::size_t count) : count_(count) {}

    struct Pair {
        std::size_t left, right;
    };
    /// The next pair to compare, `left < right`, by the items' first positions; none if all is sorted.
    std::optional<Pair> next();
    void answer(bool is_less) { answers_.push_back(is_less); }
    std::size_t answered() const { return answers_.size(); }
    /// The order of the items when `next` was last called: what a sort leaves in the list if that comparison raises.
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
