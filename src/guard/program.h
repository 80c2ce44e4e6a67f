/// The guards of an entry as a program: one walk checks them and fetches what the graph and the plan need.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "guard/guard.h"

namespace stator {

class GuardProgram {
  public:
    /// From the guards of a trace, in order, and the sources whose objects are wanted (`fetched`, in order).
    GuardProgram(std::span<const Guard> guards, std::span<Source* const> fetched);
    ~GuardProgram();
    GuardProgram(GuardProgram&&) noexcept;

    /// True if everything still holds. `slots` are the frame's, `function` the function it runs. Never runs user code.
    bool check(PyObject* const* slots, PyObject* function);
    /// After a successful check: what `fetched[i]` led to. Borrowed; valid until Python code runs.
    std::span<PyObject* const> fetched() const;
    /// After a failed check: the failing guard in words, with what was expected and what was found.
    std::string explain(PyObject* const* slots, PyObject* function);

    std::size_t size() const;                // guards
    std::vector<std::string> print() const;  // one line a guard
    /// Every object that the program keeps alive, for the garbage collector.
    void visit(const std::function<void(PyObject*)>& visitor) const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace stator
