/// From guards over a tree of sources to the steps of a program. For the files of this room only.
///
/// Where an object is known to be the one of the last check, because the dict or class that holds it did not change,
/// some of what was checked of it can't have changed either: its value if it is a constant, its items if it is a tuple,
/// its class if that is a builtin one. Such facts are called lasting here, and are checked inside the block of that
/// dict or class, to be skipped with it. Everything else comes after the block.
#pragma once

#include "guard/constants.h"
#include "guard/steps.h"

namespace stator {

class GuardBuilder {
  public:
    using State = GuardProgram::State;

    explicit GuardBuilder(State& state) : state_(state) {}
    /// Sources are left as they were, so that another program can be built from them.
    ~GuardBuilder();
    GuardBuilder(const GuardBuilder&) = delete;
    GuardBuilder& operator=(const GuardBuilder&) = delete;

    void build(std::span<const Guard> guards, std::span<Source* const> fetched, std::span<Source* const> all_distinct);

  private:
    static constexpr std::int32_t kNone = -1;

    /// A source that is needed. Its index is its register.
    struct Draft {
        Source* source;
        std::int32_t first_fact = kNone, last_fact = kNone;
        std::int32_t first_child = kNone, last_child = kNone, next_sibling = kNone;
        bool absent = false;
        bool used = false;              // its object itself is wanted, not just what is reached through it
        bool fetched_by_block = false;  // an instance's dict that is fetched and entered in one step
        bool without_dict = false;      // ... and that the instance need not have
    };

    /// When a fact is checked.
    enum class When : std::uint8_t {
        Never,    // it follows from another one, or the fetch says it
        Lasting,  // with the fetch
        Block,    // in the block of the dict
        Always,   // after the block that holds the object
        Last,     // when everything is fetched
    };

    // --- collecting: build.cpp -----------------------------------------------------------------------------------

    void reserve(std::size_t count);
    PyObject* keep(PyObject* object);
    std::int32_t draft_of(Source* source);
    void add_draft(Source* source);
    std::int32_t used(Source* source);
    void add(const Guard& guard);
    bool is_repetition(const Fact& fact) const;
    /// The index of an expression over registers; one that was added lately is not added again.
    std::int64_t add_expression(const Expression& expression);

    template <class Test>
    bool any_fact(const Draft& draft, Test test) const {
        for (std::int32_t i = draft.first_fact; i != kNone; i = next_fact_[i])
            if (test(state_.facts[i])) return true;
        return false;
    }

    // --- what lasts, and the order of steps: order.cpp -----------------------------------------------------------

    When when(const Fact& fact) const;
    /// The keys of an OrderedDict have an order that the dict's version knows nothing of.
    bool has_own_order(const Fact& keys) const;
    /// Whether one parent object always leads to one object by this access.
    static bool is_lasting(const Source& source);
    void emit_all();
    void take_deferred();
    /// Fetches a source and everything lasting below it; the rest is deferred.
    void place(std::int32_t top);
    /// What `place` left out: checks that never last, children that may have changed, and the blocks.
    void finish(std::int32_t index);
    void emit_dict_block(std::int32_t index);
    void emit_class_block(std::int32_t index);
    bool looks_up_constants(const Draft& draft) const;
    /// Whether an instance's dict is only looked into, so that fetching it can wait for the block; `without_dict` if
    /// just for attributes, which an instance can have without a dict.
    void plan_instance_dict(Draft& draft) const;

    // --- single steps: emit.cpp ----------------------------------------------------------------------------------

    std::int32_t emit(const Step& step, std::int32_t fact = kNone);
    void emit_fetch(std::int32_t index);
    void describe_member(Step& step, const Source& source);
    void emit_check(std::int32_t fact);
    /// Equal sets may be iterated in different orders. What was traced had the order of the set that was seen.
    PyObject* elements_in_order(PyObject* seen, PyObject* expected);

    State& state_;
    std::vector<Draft> drafts_;
    std::vector<std::int32_t> roots_;
    std::vector<std::int32_t> next_fact_;  // of the same source
    std::vector<PyObject*> expected_;      // of each guard as it was given, kept by the trace
    std::vector<Source*> path_;
    std::vector<std::int32_t> to_place_, deferred_, tasks_;
};

}  // namespace stator
