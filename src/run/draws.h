/// Draws the random numbers of module `random` that a call needs, before its graph runs.
#pragma once

#include <utility>
#include <vector>

#include "base/ref.h"
#include "trace/trace.h"

namespace stator {

/// The states of generators before a call drew from them, to be restored if the program runs uncompiled instead.
class GeneratorStates {
  public:
    /// Saves the state, unless that was done before.
    void keep(Borrowed<> generator);
    /// False if that raised an exception, which is dropped.
    bool restore();

  private:
    std::vector<std::pair<Ref<>, Ref<>>> states_;
};

/// Draws one number. Throws PythonError.
Ref<> draw(const DrawnInput& drawn, Borrowed<> generator, GeneratorStates& states);

}  // namespace stator
