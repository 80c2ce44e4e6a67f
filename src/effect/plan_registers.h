/// The registers of a plan that runs.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/ref.h"

namespace stator {

/// Owned references, on the C stack where they are few. Those of a plan that does not return outlive its run: frames
/// are filled from them.
class PlanRegisters {
  public:
    PlanRegisters() {}  // not defaulted: `{}` would fill `here_` with zeros, which takes as long as a small plan
    ~PlanRegisters() { free_last_first(); }
    PlanRegisters(const PlanRegisters&) = delete;
    PlanRegisters& operator=(const PlanRegisters&) = delete;

    /// That many empty ones.
    void prepare(std::size_t count) {
        free_last_first();
        values_ = here_;
        if (count > kHere) {
            allocated_ = std::make_unique_for_overwrite<PyObject*[]>(count);
            values_ = allocated_.get();
        }
        for (std::size_t i = 0; i < count; ++i) values_[i] = nullptr;
        count_ = count;
    }

    /// Null for -1.
    PyObject* operator[](std::int32_t number) const { return number < 0 ? nullptr : values_[number]; }
    void fill(std::int32_t number, Ref<> value) { values_[number] = value.release(); }
    Ref<> take(std::int32_t number) { return Ref<>::steal(std::exchange(values_[number], nullptr)); }

    void free_first_to_last() {
        const std::size_t count = std::exchange(count_, 0);
        for (std::size_t i = 0; i < count; ++i) Py_XDECREF(values_[i]);
    }
    void free_last_first() {
        for (std::size_t i = std::exchange(count_, 0); i-- > 0;) Py_XDECREF(values_[i]);
    }

  private:
    static constexpr std::size_t kHere = 40;
    std::size_t count_ = 0;
    PyObject** values_ = here_;
    PyObject* here_[kHere];
    std::unique_ptr<PyObject*[]> allocated_;
};

}  // namespace stator
