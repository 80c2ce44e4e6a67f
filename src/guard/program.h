/// The guards of an entry as a program: one pass checks them and fetches what the graph and the plan need.
///
/// The program is a flat list of steps over registers, in the order of the source tree. A register holds the object of
/// a source, borrowed; a step fetches one from another, or checks one. The steps below a dict or a class form a block,
/// which is skipped while the version of that dict or class is that of the block's last success: the registers of the
/// block then still hold what the dict holds. When checks repeat with the same objects, a quick check is built,
/// which compares one address for each object of an unchanged model (see guard/quick.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "guard/guard.h"

namespace stator {

/// A condition that a backend needs. Its sources are given by their symbols.
struct BackendCondition {
    std::vector<Term> terms;
    std::string text;
    /// Not null if the number language has no form for it: called with the numbers that `terms` read.
    Ref<> function = {};
};

class GuardProgram {
  public:
    /// From the guards of a trace, in order, the sources to fetch (`fetched`, in order), and the
    /// sources whose objects have to be pairwise different. Does not refer to the sources afterwards.
    /// Conditions may be added later on about `symbols`, the numbers of the trace that change between calls.
    GuardProgram(std::span<const Guard> guards, std::span<Source* const> fetched,
                 std::span<Source* const> all_distinct = {}, std::span<const Expression* const> symbols = {});
    ~GuardProgram();
    GuardProgram(GuardProgram&&) noexcept;
    GuardProgram& operator=(GuardProgram&&) noexcept;

    void require(BackendCondition condition);

    /// Whether all guards hold. `slots` are the frame's, `function` the function it runs. Never raises. Runs no user
    /// code, with three exceptions: the `__eq__` of a key with the same hash as a `str` that is looked up,
    /// `__subclasscheck__` of an abstract base class after a registration, and the sizes of a tensor subclass. A check
    /// of this program by that code, or by another thread meanwhile, fails.
    bool check(PyObject* const* slots, PyObject* function);
    /// After a successful check: the object of `fetched[i]`. Borrowed; valid until Python code runs.
    std::span<PyObject* const> fetched() const;
    /// Frees the objects that a check created, once they are no longer needed. May run any code.
    void release();
    /// The failing guard in words, with what was expected and what was found; empty if none fails.
    std::string explain(PyObject* const* slots, PyObject* function);

    /// The sources (by `path`) of numbers and of sizes of tensors that are guarded on their value and have changed.
    /// Ignores those guards, and stops at the first other guard that fails.
    std::vector<std::string> changed_numbers(PyObject* const* slots, PyObject* function);

    /// A guard that compares the object of one source with one value.
    struct Expected {
        std::string place;  // its text, which is the same in other programs
        GuardKind kind;
        std::int32_t number;          // the register in this program
        std::uint64_t key;            // a hash of the value
        std::int32_t dimension = -1;  // of a tensor: only the size of this dimension is compared
    };
    std::vector<Expected> expected() const;
    /// The key of what a frame holds at such a source of this program: if it is not `at.key`, the guard fails.
    /// None if it can't be read without running code.
    std::optional<std::uint64_t> found(const Expected& at, PyObject* const* slots, PyObject* function) const;

    std::size_t size() const;                // guards, without repetitions
    std::vector<std::string> print() const;  // one line a guard
    /// The steps as they are executed, one a line.
    std::vector<std::string> print_steps() const;
    /// What the quick check compares, one a line; empty if there is none.
    std::vector<std::string> print_quick() const;
    /// How many checks were answered by the present quick check.
    std::size_t quick_hits() const;
    /// How many of them read no dict version, because no watched dict had changed.
    std::size_t watched_hits() const;
    /// How many steps a check takes now without the quick check.
    std::size_t count_steps(PyObject* const* slots, PyObject* function);
    /// Every reference that the program owns, for the garbage collector.
    void visit(const std::function<void(PyObject*)>& visitor) const;

  private:
    friend class GuardBuilder;
    friend class QuickCheck;
    friend class QuickCheckBuilder;
    friend class QuickCheckPolicy;
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace stator
