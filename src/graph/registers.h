/// The values of one run of a graph, as Python objects.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "base/ref.h"

namespace stator::graph {

/// The values of one run and the room for the arguments of one call, on the C stack for graphs of ordinary size.
class Registers {
  public:
    Registers(std::size_t registers, std::size_t longest_call) : count_(registers) {
        std::size_t size = registers + longest_call + 1;
        values_ = here_;
        if (size > kHere) {
            heap_ = std::make_unique<PyObject*[]>(size);
            values_ = heap_.get();
        } else {
            std::fill_n(values_, size, nullptr);
        }
    }
    ~Registers() {
        for (std::size_t i = 0; i < count_; ++i) Py_XDECREF(values_[i]);
    }
    Registers(const Registers&) = delete;
    Registers& operator=(const Registers&) = delete;

    PyObject* operator[](std::size_t i) const { return values_[i]; }
    void set(std::size_t i, PyObject* owned) { values_[i] = owned; }
    void release(std::size_t i) { Py_CLEAR(values_[i]); }
    /// The slot before the arguments can be used by the callee, as in the vectorcall protocol.
    PyObject** call_arguments() { return values_ + count_ + 1; }

  private:
    static constexpr std::size_t kHere = 128;
    PyObject* here_[kHere];
    std::unique_ptr<PyObject*[]> heap_;
    PyObject** values_;
    std::size_t count_;
};

}  // namespace stator::graph
