/// The state of a guard program. For the files of this room only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guard/distinct.h"
#include "guard/program.h"
#include "guard/quick.h"
#include "guard/quick_builder.h"
#include "guard/step.h"
#include "torch/tensor.h"

namespace stator {

/// What the program keeps of a source, to print it. Its index is its register.
struct Place {
    Access access;
    std::int32_t number;
    std::int32_t parent;
    PyObject* key;     // borrowed from `kept`
    PyObject* object;  // of a pinned one, borrowed from `kept`
};

/// What the program keeps of a guard.
struct Fact {
    GuardKind kind;
    std::int32_t place;
    std::int32_t other = -1;
    std::int32_t tensor = -1;
    std::int64_t number = 0;       // of an Expression: its index
    PyObject* expected = nullptr;  // borrowed from `kept`; null for tensors
};

/// A condition of a backend that the number language has no form for: a Python function decides it. It is asked once
/// for each set of numbers that differs from the last.
struct PythonCondition {
    Ref<> function;
    std::string text;
    std::vector<Number> asked;
    bool holds = false;
};

struct CheckedCondition : Condition {
    /// Not null if Python decides it: then `terms` are the numbers that the function takes.
    std::unique_ptr<PythonCondition> by_python;
};

struct GuardProgram::State {
    // Used by checks.
    std::vector<Step> steps;
    std::vector<PyObject*> registers;
    std::vector<torch_room::TensorCheck> tensors;
    std::vector<std::int32_t> fetched_from;
    std::vector<PyObject*> fetched;
    std::vector<CheckedCondition> expressions;
    std::vector<Term> symbols;  // where the symbols of the trace are read, for conditions that are added later
    std::unique_ptr<DistinctObjects> distinct;
    /// Results of Computed steps: the only objects that a check creates. They live until the next check.
    std::vector<Ref<>> computed;
    /// What the registers have, from the first step on that runs code of the program. Until the next check.
    std::vector<Ref<>> held;
    std::vector<std::int32_t> walked;  // the Enters whose blocks the last run did not skip
    QuickCheck quick;
    QuickCheckPolicy quick_policy;
    static constexpr std::int32_t kNone = -1, kInterrupted = -2;
    std::int32_t failed = kNone;  // the step that failed in the last check
    /// The check ended early because it ran code that may have freed objects in registers. It has to be repeated.
    bool has_run_code = false;
    /// How many checks are running, at most one. Some steps may run code (see `GuardProgram::check`), and
    /// a check of this program from there, or from another thread meanwhile, fails.
    int running = 0;
    struct InUse {
        explicit InUse(int& running) : running(running) { ++running; }
        ~InUse() { --running; }
        InUse(const InUse&) = delete;
        InUse& operator=(const InUse&) = delete;
        int& running;
    };

    // Used by messages.
    std::vector<Place> places;
    std::vector<Fact> facts;
    std::vector<std::int32_t> fact_of_step;  // -1 for steps that only fetch
    std::vector<Ref<>> kept;

    /// Runs steps, these or those of the quick check, up to Done.
    template <bool kCounting>
    bool execute(Step* first, PyObject* const* slots, PyObject* function, std::size_t* count);
    bool execute_steps(Step* first, PyObject* const* slots, PyObject* function);
    bool check(PyObject* const* slots, PyObject* function);
    bool holds(const CheckedCondition& condition);
    bool flattens_to(const Step& flattened);
    bool holds_by_python(const CheckedCondition& condition);
    std::optional<Number> read_number(const Term& term) const;
    std::vector<std::string> changed_numbers(PyObject* const* slots, PyObject* function);
    template <bool kCounting>
    bool check_all(PyObject* const* slots, PyObject* function, std::size_t* count);
    PyObject* read(std::int32_t place, PyObject* const* slots, PyObject* function) const;
    bool is_readable(std::int32_t place) const;
    void add_fixed_sizes(const Fact& fact, std::vector<Expected>& all) const;
    void drop_computed();
    void enter_changed(Step* first, Step* enter);
    void build(std::span<const Guard> guards, std::span<Source* const> fetched, std::span<Source* const> all_distinct,
               std::span<const Expression* const> symbols);

    std::string print_place(std::int32_t place) const;
    std::string print_fact(const Fact& fact) const;
    std::string print_step(std::size_t index) const;
    std::string explain_failure() const;
    /// ` (closure variable n.scale)` if the guard that failed is about such a variable of a function; else empty.
    std::string closure_variable_of_failure() const;
    std::string print_expression(std::int64_t index) const;
};

/// The text of a guard from its parts.
std::string guard_text(GuardKind kind, const std::string& source, PyObject* expected, std::int64_t number,
                       const std::string& other, const torch_room::TensorCheck* tensor);

}  // namespace stator
