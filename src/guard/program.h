/// The guards of an entry as a program: one walk checks them and fetches what the graph and the plan need.
///
/// The program is a flat list of steps over registers, in the order of the source tree. A register holds what a source
/// leads to, borrowed; a step fetches one from another, or checks one. What hangs in a dict or on a class is a block,
/// skipped while the version of that dict or class is the one of the block's last success: the objects in the block's
/// registers are then still those that the dict holds. When checks repeat themselves, a quick check is recorded, which
/// answers for an unchanged model with one comparison for each object (see guard/quick.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "guard/guard.h"

namespace stator {

class GuardProgram {
  public:
    /// From the guards of a trace, in order, the sources whose objects are wanted (`fetched`, in order), and the
    /// sources whose objects have to be different from each other. Keeps nothing of the trace: the sources may go.
    GuardProgram(std::span<const Guard> guards, std::span<Source* const> fetched,
                 std::span<Source* const> all_distinct = {});
    ~GuardProgram();
    GuardProgram(GuardProgram&&) noexcept;
    GuardProgram& operator=(GuardProgram&&) noexcept;

    /// True if everything still holds. `slots` are the frame's, `function` the function it runs. Never raises, whatever
    /// the objects have become, and runs no user code but this: Python asks the `__eq__` of a foreign key that has the
    /// very same hash as a `str` that is looked up, an abstract base class may have to be asked again, and a tensor of
    /// a class may compute its sizes. A check of this program by that code, or by another thread meanwhile, fails.
    bool check(PyObject* const* slots, PyObject* function);
    /// After a successful check: what `fetched[i]` led to. Borrowed; valid until Python code runs.
    std::span<PyObject* const> fetched() const;
    /// Once nobody needs them any more: lets go of the objects that a check had to make. May run anything.
    void release();
    /// The failing guard in words, with what was expected and what was found; empty if none fails.
    std::string explain(PyObject* const* slots, PyObject* function);

    /// The places (as by `path`) of numbers that were guarded to have one value and have another one now, as far as a
    /// check comes that minds nothing else about them.
    std::vector<std::string> changed_numbers(PyObject* const* slots, PyObject* function);

    /// A guard that compares what is at one place with one value.
    struct Expected {
        std::string place;  // as it prints: the same place has the same text in other programs
        GuardKind kind;
        std::int32_t number;  // of the place in this program
        std::uint64_t key;    // another one for most other values
    };
    std::vector<Expected> expected() const;
    /// The key of what a frame holds at such a place of this program: where it is not `at.key`, the guard fails.
    /// Nothing if that can't be told without running code.
    std::optional<std::uint64_t> found(const Expected& at, PyObject* const* slots, PyObject* function) const;

    std::size_t size() const;                // guards, without repetitions
    std::vector<std::string> print() const;  // one line a guard
    /// The steps as they are executed, one a line.
    std::vector<std::string> print_steps() const;
    /// What the quick check compares, one a line; nothing where none is recorded.
    std::vector<std::string> print_quick() const;
    /// How many checks were answered by the quick check that is recorded now.
    std::size_t quick_hits() const;
    /// How many of them read no version of a dict, because Python told of no change.
    std::size_t watched_hits() const;
    /// How many steps a check takes now without the quick check.
    std::size_t count_steps(PyObject* const* slots, PyObject* function);
    /// Every reference that the program owns, for the garbage collector.
    void visit(const std::function<void(PyObject*)>& visitor) const;

  private:
    friend class GuardBuilder;
    friend class QuickCheck;
    friend class QuickRecorder;
    friend class Recording;
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace stator
