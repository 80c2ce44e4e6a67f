/// Python's garbage collector, switched off for a while.
#pragma once

#include <Python.h>

#include <utility>

namespace stator {

/// A capture makes thousands of objects that live on, and none that only the collector could free; and a collection in
/// the middle of a guard check would run code there.
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
