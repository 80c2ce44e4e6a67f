/// Disables Python's garbage collector for a scope.
#pragma once

#include <Python.h>

#include <utility>

namespace stator {

/// A capture creates thousands of objects that stay alive, and no garbage cycles; and a collection in the middle of a
/// guard check would run code there.
class CollectorPaused {
  public:
    CollectorPaused() : was_enabled_(PyGC_Disable()) {}
    ~CollectorPaused() { resume(); }
    CollectorPaused(const CollectorPaused&) = delete;
    CollectorPaused& operator=(const CollectorPaused&) = delete;

    void resume() {
        if (std::exchange(was_enabled_, 0) != 0) PyGC_Enable();
    }

  private:
    int was_enabled_;
};

}  // namespace stator
