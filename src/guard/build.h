/// From guards over a tree of sources to the steps of a program. For the files of this room only.
///
/// If the dict or class that holds an object has not changed since the last check, then the object is the same, and
/// some facts about it can't have changed either: its value if it is a constant, its items if it is a tuple, its class
/// if that is a builtin one. Such facts are called lasting. They are checked inside the block of that dict or class,
/// and skipped with it. Everything else is checked after the block.
#pragma once

#include "guard/constants.h"
#include "guard/state.h"

namespace stator {

/// The number of a size, a stride or a storage offset of the tensor that the source is a child of; -1 for other
/// sources.
std::int32_t layout_number_of(const Source& source);

class GuardBuilder {
  public:
    using State = GuardProgram::State;

    explicit GuardBuilder(State& state) : state_(state) {}
    /// Does not change the sources, so that another program can be built from them.
    ~GuardBuilder();
    GuardBuilder(const GuardBuilder&) = delete;
    GuardBuilder& operator=(const GuardBuilder&) = delete;

    void build(std::span<const Guard> guards, std::span<Source* const> fetched, std::span<Source* const> all_distinct,
               std::span<const Expression* const> symbols);

  private:
    static constexpr std::int32_t kNone = -1;

    /// A source that is needed. Its index is its register.
    struct Draft {
        Source* source;
        std::int32_t first_fact = kNone, last_fact = kNone;
        std::int32_t first_child = kNone, last_child = kNone, next_sibling = kNone;
        bool absent = false;
        bool used = false;              // its object itself is needed, not only its children
        bool fetched_by_block = false;  // an instance's dict that is fetched and entered in one step
        bool without_dict = false;      // ... and that the instance need not have
    };

    /// When a fact is checked.
    enum class When : std::uint8_t {
        Never,    // implied by another fact, or by the fetch
        Lasting,  // with the fetch
        Block,    // in the block of the dict
        Always,   // after the block that holds the object
        Last,     // when everything is fetched
        AtEnd,    // after those
    };

    // --- collecting: build.cpp -----------------------------------------------------------------------------------

    void reserve(std::size_t count);
    PyObject* keep(PyObject* object);
    std::int32_t draft_of(Source* source);
    void add_draft(Source* source);
    std::int32_t used(Source* source);
    void add(const Guard& guard);
    bool is_repetition(const Fact& fact) const;
    /// The index of an expression over registers; recently added ones are reused.
    std::int64_t add_expression(const Expression& expression);
    void add_symbol(const Expression& symbol);
    /// The terms of an expression with the registers of their sources.
    std::vector<Term> over_registers(const Expression& expression);

    template <class Test>
    bool any_fact(const Draft& draft, Test test) const {
        for (std::int32_t i = draft.first_fact; i != kNone; i = next_fact_[i])
            if (test(state_.facts[i])) return true;
        return false;
    }

    // --- what lasts, and the order of steps: order.cpp -----------------------------------------------------------

    When when(const Fact& fact) const;
    /// The dict version does not cover the key order of an OrderedDict.
    bool has_own_order(const Fact& keys) const;
    /// Whether this access gives the same object for the same parent.
    static bool is_lasting(const Source& source);
    void emit_all();
    void take_deferred();
    /// Fetches a source and everything lasting below it; the rest is deferred.
    void place(std::int32_t top);
    /// What `place` deferred: checks that are not lasting, children that may have changed, and the blocks.
    void finish(std::int32_t index);
    void emit_dict_block(std::int32_t index);
    void emit_class_block(std::int32_t index);
    bool looks_up_constants(const Draft& draft) const;
    /// Whether only items of an instance's dict are needed, so that the block can fetch it; `without_dict` if
    /// only attributes are needed, which an instance can have without a dict.
    void plan_instance_dict(Draft& draft) const;

    // --- single steps: emit.cpp ----------------------------------------------------------------------------------

    std::int32_t emit(const Step& step, std::int32_t fact = kNone);
    void emit_fetch(std::int32_t index);
    void describe_member(Step& step, const Source& source);
    void compute_by(Step& step, PyObject* descriptor);
    void emit_check(std::int32_t fact);
    /// Equal sets may iterate in different orders, and the trace relies on the order of the set that it saw.
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
